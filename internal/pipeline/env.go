package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/changefile"
)

// Env is what runs need of their surroundings. The zero value works. It must not
// be copied after first use.
type Env struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Engine is commitInfo.engineInfo; "" is the default of deltatable.
	Engine string
	// Workers bounds the files worked on at once; 0 is the number of processors.
	Workers int
	// Stdin is what the file name "-" reads.
	Stdin io.Reader
	// Progress is told what is being done; nil for nobody. It may be called from
	// several goroutines.
	Progress func(step string)
	// Retry bounds the attempts of a commit; nil is the default of deltatable.
	Retry *deltatable.Retry
	// Undecided bounds how long a commit whose outcome is unknown is put again
	// (R8); nil is the default of deltatable.
	Undecided *deltatable.Retry
	// Store is how object stores are opened; nil is the default of blobstore.
	Store *blobstore.Config
	// Open opens the store at a path or URL; nil is blobstore.OpenWith and Store.
	Open func(ctx context.Context, url string) (*blobstore.Store, error)

	mu         sync.Mutex
	parameters map[string]string // of a bucket's URL, as first given; see open
}

func (e *Env) now() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now() //nolint:forbidigo // the default of the clock option
}

func (e *Env) step(format string, args ...any) {
	if e.Progress != nil {
		e.Progress(fmt.Sprintf(format, args...))
	}
}

// OpenTable opens the table at a path or URL; it need not be there yet.
func (e *Env) OpenTable(ctx context.Context, url string) (*deltatable.Table, error) {
	store, err := e.open(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open table: %w", err)
	}
	return deltatable.NewTable(store, &deltatable.Options{
		Now: e.Now, Engine: e.Engine, Workers: e.Workers, Undecided: e.Undecided, Open: e.open,
	}), nil
}

// current is the latest snapshot, nil where there is no table.
func current(ctx context.Context, t *deltatable.Table) (*deltatable.Snapshot, error) {
	s, err := t.Snapshot(ctx)
	if errors.Is(err, deltatable.ErrNoTable) {
		return nil, nil
	}
	return s, err
}

// stdinName is the name of standard input among files.
const stdinName = "-"

// Inputs are the input files of a run. Standard input is kept, so that a run
// that has to start over can read it again.
type inputs struct {
	names   []string
	sources []changefile.Source
}

func (e *Env) inputs(files []string) (*inputs, error) {
	if len(files) == 0 {
		return nil, usage("no input file is given")
	}
	in := &inputs{}
	for _, name := range files {
		if err := CheckLocation(name); err != nil {
			return nil, err
		}
		switch {
		case name == stdinName:
			if e.Stdin == nil {
				return nil, usage("there is no standard input to read")
			}
			data, err := io.ReadAll(e.Stdin)
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			in.sources = append(in.sources, changefile.FromBytes(name, data))
		case isURL(name):
			in.sources = append(in.sources, e.fromStore(name))
		default:
			in.sources = append(in.sources, changefile.FromFile(name, name))
		}
		in.names = append(in.names, in.sources[len(in.sources)-1].Name)
	}
	return in, nil
}

// fromStore is a file behind a URL, read through a store on its folder. Its name
// is the URL without parameters, which say how to get there.
func (e *Env) fromStore(location string) changefile.Source {
	name, _ := cutQuery(location)
	return changefile.Source{Name: name, Open: func(ctx context.Context) (io.ReadCloser, error) {
		dir, key, err := splitURL(location)
		if err != nil {
			return nil, err
		}
		store, err := e.open(ctx, dir)
		if err != nil {
			return nil, err
		}
		return changefile.FromStore(name, store, key).Open(ctx)
	}}
}

// batchName is the default name of a batch: the base name of its first file.
func batchName(given string, files []string) string {
	if given != "" || len(files) == 0 {
		return given
	}
	return path.Base(strings.ReplaceAll(files[0], "\\", "/"))
}
