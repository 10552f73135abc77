package changefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// arrowLimit bounds the metadata of one message of an Arrow input.
const arrowLimit = 256 << 20

// readArrow reads an Arrow IPC file or stream; its first bytes tell which.
func readArrow(ctx context.Context, name string, in io.Reader, o *Options) (f *File, err error) {
	ra, err := readerAt(in)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	// As with Parquet: arrow-go panics on some damaged files, and what the store
	// or the context ended is no damage.
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, &InputError{File: name, Msg: fmt.Sprintf("damaged Arrow file: %v", p)}
		}
		if below := ra.failure(); err != nil && below != nil {
			f, err = nil, fmt.Errorf("read %s: %w", name, below)
		} else if err != nil && ctx.Err() != nil {
			f, err = nil, fmt.Errorf("read %s: %w", name, ctx.Err())
		}
	}()
	head := make([]byte, len(ipc.Magic))
	if _, err := ra.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.Equal(head, ipc.Magic):
		return readArrowFile(ctx, name, ra, o)
	case bytes.HasPrefix(head, []byte("FEA1")):
		return nil, &InputError{File: name, Msg: "this is Feather version 1; version 2, which is Arrow IPC, can be read"}
	}
	return readArrowStream(ctx, name, ra, o)
}

func noArrow(name string, err error) error {
	return &InputError{File: name, Msg: "no readable Arrow file: " + err.Error()}
}

func readArrowFile(ctx context.Context, name string, ra *watchedReader, o *Options) (*File, error) {
	r, err := ipc.NewFileReader(ra, ipc.WithMetadataSizeLimit(arrowLimit), ipc.WithBodySizeLimit(ra.Size()))
	if err != nil {
		return nil, noArrow(name, err)
	}
	defer r.Close() // the Source's reader is closed by Read
	p, err := planColumns(name, r.Schema(), o)
	if err != nil {
		return nil, err
	}
	for i := range r.NumRecords() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rec, err := r.RecordBatchAt(i)
		if err != nil {
			return nil, p.damaged("Arrow", err)
		}
		if err := p.addArrow(rec); err != nil {
			return nil, err
		}
	}
	return p.file, nil
}

func readArrowStream(ctx context.Context, name string, ra *watchedReader, o *Options) (*File, error) {
	mr := &markedMessages{MessageReader: ipc.NewMessageReader(ra, ipc.WithMetadataSizeLimit(arrowLimit), ipc.WithBodySizeLimit(ra.Size()))}
	r, err := ipc.NewReaderFromMessageReader(mr)
	if err != nil {
		return nil, noArrow(name, err)
	}
	defer r.Release()
	p, err := planColumns(name, r.Schema(), o)
	if err != nil {
		return nil, err
	}
	for r.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.addArrow(r.RecordBatch()); err != nil {
			return nil, err
		}
	}
	if err := r.Err(); err != nil {
		return nil, p.damaged("Arrow", err)
	}
	// A stream that was cut between two messages reads like a whole one but for
	// its end marker.
	if !mr.ended {
		return nil, &InputError{File: name, Msg: fmt.Sprintf("the Arrow stream has no end marker behind row %d: it may have been cut", p.file.Rows)}
	}
	if at, err := ra.Seek(0, io.SeekCurrent); err != nil || at != ra.Size() {
		return nil, &InputError{File: name, Msg: fmt.Sprintf("%d bytes follow the end of the Arrow stream", ra.Size()-at)}
	}
	return p.file, nil
}

// markedMessages notes whether a stream ended with its end marker: arrow-go then
// gives io.EOF itself, and a wrapped one where the bytes end.
type markedMessages struct {
	ipc.MessageReader
	ended bool
}

func (m *markedMessages) Message() (*ipc.Message, error) {
	msg, err := m.MessageReader.Message()
	m.ended = err == io.EOF //nolint:errorlint // NB: the wrapped one must not count
	return msg, err
}

// damaged says that the rows from the next on cannot be read.
func (p *columnPlan) damaged(format string, err error) error {
	return &InputError{File: p.file.Name, Line: p.file.Rows + 1, Msg: "unreadable " + format + " data at or after this row: " + err.Error()}
}

// addArrow appends the rows of a batch of the file, after a check of what
// arrow-go leaves to its readers: offsets and null counts.
func (p *columnPlan) addArrow(rec arrow.RecordBatch) error {
	cols := map[int]arrow.Array{}
	for _, i := range p.from {
		if i < 0 {
			continue
		}
		if err := sound(rec.Column(i)); err != nil {
			return p.damaged("Arrow", fmt.Errorf("column %s: %w", rec.ColumnName(i), err))
		}
		rec.Column(i).Retain() // what it holds outlives the reader
		cols[i] = rec.Column(i)
	}
	return p.add(cols, int(rec.NumRows()))
}

// sound checks an array and what is nested in it.
func sound(a arrow.Array) error {
	if v, ok := a.(interface{ ValidateFull() error }); ok {
		if err := v.ValidateFull(); err != nil {
			return err
		}
	}
	if b := a.NullBitmapBytes(); len(b) > 0 && a.DataType().ID() != arrow.DICTIONARY {
		nulls := 0
		for i := a.Data().Offset(); i < a.Data().Offset()+a.Len(); i++ {
			if b[i/8]&(1<<(i%8)) == 0 {
				nulls++
			}
		}
		if nulls != a.NullN() {
			return fmt.Errorf("%d values are NULL where %d are counted", nulls, a.NullN())
		}
	} else if len(b) == 0 && a.NullN() > 0 && a.DataType().ID() != arrow.NULL {
		return fmt.Errorf("%d values are counted as NULL, none is", a.NullN())
	}
	switch a := a.(type) {
	case *array.Struct:
		for i := range a.NumField() {
			if err := sound(a.Field(i)); err != nil {
				return err
			}
		}
	case *array.Dictionary:
		return sound(a.Dictionary())
	case array.ListLike:
		return sound(a.ListValues())
	}
	return nil
}
