package pipeline

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deltafold/deltafold/internal/rowfile"
)

// target is where rows go and in which form.
type target struct {
	format string
	file   string // path or URL; "": out
	out    io.Writer
}

// output writes the rows of a query and gives their number. A file is whole or
// not there.
func (e *Env) output(ctx context.Context, q *query, t *target) (int64, error) {
	if !slices.Contains(rowfile.Formats(), t.format) {
		return 0, usage("--format %s is none of %s", t.format, strings.Join(rowfile.Formats(), ", "))
	}
	rows, err := q.rows(ctx)
	if err != nil {
		return 0, err
	}
	sch, err := q.schema()
	if err != nil {
		return 0, err
	}
	w, done, err := e.target(ctx, t)
	if err != nil {
		return 0, err
	}
	var n int64
	err = func() error {
		rw, err := rowfile.NewWriter(w, t.format, sch)
		if err != nil {
			return err
		}
		for rec, err := range rows {
			if err != nil {
				return err
			}
			if err := rw.Write(rec); err != nil {
				return err
			}
			if n += rec.NumRows(); t.file != "" {
				e.step("%d rows written", n)
			}
		}
		return rw.Close()
	}()
	if err := done(err); err != nil {
		return 0, err
	}
	return n, nil
}

// target gives the writer, and what ends it: with an error nothing stays.
func (e *Env) target(ctx context.Context, t *target) (io.Writer, func(error) error, error) {
	switch {
	case t.file == "":
		return t.out, func(err error) error { return err }, nil
	case isURL(t.file):
		return e.openObject(ctx, t.file)
	}
	f, err := os.CreateTemp(filepath.Dir(t.file), ".deltafold-*")
	if err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", t.file, err)
	}
	return f, func(err error) error {
		if err == nil {
			err = f.Chmod(0o644)
		}
		if err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err == nil {
			err = os.Rename(f.Name(), t.file)
		}
		if err != nil {
			_ = os.Remove(f.Name()) // nothing more can be done about a temporary file
			return fmt.Errorf("write %s: %w", t.file, err)
		}
		return nil
	}, nil
}

func (e *Env) openObject(ctx context.Context, location string) (io.Writer, func(error) error, error) {
	dir, key, err := splitURL(location)
	if err != nil {
		return nil, nil, err
	}
	store, err := e.open(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	w, err := store.NewWriter(ctx, key)
	if err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", location, err)
	}
	return w, func(err error) error {
		if err == nil {
			err = w.Close()
		} else {
			_ = w.Abort() // the first error is the one to tell
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", location, err)
		}
		return nil
	}, nil
}
