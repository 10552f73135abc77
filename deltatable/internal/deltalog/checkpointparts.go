package deltalog

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/datafile"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// partsAhead is how many files of a log checkpoint are opened before they are read.
const partsAhead = 8

// parts are the files of a log checkpoint, opened in the order in which they are
// read and a little before.
type parts struct {
	v2     string // the key, if it is V2
	queue  chan chan *part
	cancel context.CancelFunc
}

// openParts starts to open the files of c; the caller closes the result.
func openParts(ctx context.Context, store *blobstore.Store, c *checkpoint) *parts {
	ctx, cancel := context.WithCancel(ctx)
	p := &parts{queue: make(chan chan *part, partsAhead-1), cancel: cancel}
	if c.v2 {
		p.v2 = c.files[0].key
		close(p.queue)
		return p
	}
	go func() {
		defer close(p.queue)
		for _, f := range c.files {
			done := make(chan *part, 1)
			select {
			case p.queue <- done:
				go func() { done <- openPart(ctx, store, f) }()
			case <-ctx.Done():
				return
			}
		}
	}()
	return p
}

// read yields the actions of all parts, in order.
func (p *parts) read(ctx context.Context, yield func(action.Action)) error {
	if p.v2 != "" {
		return v2Error(p.v2)
	}
	maps := newMapCache()
	for done := range p.queue {
		part := <-done
		err := part.read(ctx, maps, yield)
		part.close()
		if err != nil {
			return err
		}
	}
	return ctx.Err() // ended early: not all parts came
}

// close ends what was started; nothing of it goes on afterwards.
func (p *parts) close() {
	p.cancel()
	for done := range p.queue {
		(<-done).close()
	}
}

// part is one file of a log checkpoint, or the reason why it cannot be opened.
type part struct {
	key     string
	distant bool
	rd      *blobstore.Reader
	in      *watchedReader
	file    *file.Reader
	err     error
}

// openPart reads a file's footer and has the columns fetched that are always read.
func openPart(ctx context.Context, store *blobstore.Store, f checkpointFile) *part {
	p := &part{key: f.key, distant: store.Distant()}
	rd, err := store.OpenReader(ctx, f.key, f.size)
	if err != nil {
		p.err = fmt.Errorf("read log checkpoint: %w", err)
		if notFound(err) {
			p.err = &checkpointError{f.key, err}
		}
		return p
	}
	p.rd, p.in = rd, &watchedReader{r: io.NewSectionReader(rd, 0, rd.Size())}
	p.err = p.guard(ctx, func() (err error) {
		if p.file, err = file.NewParquetReader(p.in); err != nil {
			return err
		}
		if err := checkChunks(p.file, rd.Size()); err != nil {
			return err
		}
		groups := make([]int, p.file.NumRowGroups())
		for i := range groups {
			groups[i] = i
		}
		p.tell(leavesOf(p.file, baseColumn), groups)
		return nil
	})
	return p
}

// tell has columns of row groups fetched before they are read.
func (p *part) tell(leaves, groups []int) {
	if !p.distant {
		return
	}
	var ranges []blobstore.Range
	for _, g := range groups {
		for _, c := range leaves {
			ranges = append(ranges, blobstore.Range(datafile.ChunkRange(p.file, g, c)))
		}
	}
	p.rd.Prefetch(ranges)
}

// guard calls f and says what its error means. NB: the Parquet library panics on
// some damaged files. That is damage in stored data, not a bug of ours.
func (p *part) guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged Parquet file: %v", r)
		}
		var unsupported *feature.UnsupportedError
		switch {
		case err == nil || errors.As(err, &unsupported):
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case p.in.err != nil:
			err = fmt.Errorf("read log checkpoint: %w", p.in.err)
		default:
			err = &checkpointError{p.key, err}
		}
	}()
	return f()
}

// read yields the actions of the file.
func (p *part) read(ctx context.Context, maps *mapCache, yield func(action.Action)) error {
	if p.err != nil {
		return p.err
	}
	return p.guard(ctx, func() error {
		return (&checkpointReader{file: p.file, key: p.key, maps: maps, yield: yield, tell: p.tell}).read(ctx)
	})
}

// close releases the file; it was only read from.
func (p *part) close() {
	if p.rd != nil {
		_ = p.rd.Close()
	}
}
