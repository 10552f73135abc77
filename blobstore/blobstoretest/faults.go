package blobstoretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/deltafold/deltafold/blobstore"
)

// ErrInjected is in the chain of every error that [Faults] makes up.
var ErrInjected = errors.New("injected fault")

// Names of calls as in [Call.Op].
const (
	OpRead   = "read"   // Get, GetRange
	OpOpen   = "open"   // OpenReader
	OpReadAt = "readat" // Reader.ReadAt
	OpPut    = "put"
	OpCreate = "create"
	OpWriter = "writer" // NewWriter
	OpWrite  = "write"  // Writer.Write
	OpClose  = "close"  // Writer.Close
	OpList   = "list"
	OpStat   = "stat"
	OpDelete = "delete"
)

// Call is one call of a store.
type Call struct {
	// Op is one of the Op constants.
	Op string
	// Key is the object's key, or the prefix of a listing.
	Key string
	// N counts the calls of this Op through the same Faults, from 1.
	N int
}

// FaultKind is what goes wrong with a call.
type FaultKind uint8

const (
	// None is that nothing does.
	None FaultKind = iota
	// Fail is that the call is not carried out, and that this is certain: Create
	// says NotDone.
	Fail
	// LoseRequest is that the call is not carried out, but that this is not told:
	// Create says Unknown.
	LoseRequest
	// LoseAnswer is that the call is carried out, but its answer is an error; Create
	// says Unknown.
	LoseAnswer
	// Late is as LoseRequest, but the call is carried out when [Faults.Land] is
	// called. Of writes only: Put, Create, Delete and Writer.Close.
	Late
	// Half is that half of the bytes are written or read, or the first object is
	// listed, and then the call fails. Half an object never becomes visible.
	Half
)

// Fault is what becomes of a call. The zero Fault is none.
type Fault struct {
	Kind FaultKind
	// Err is wrapped by the call's error, in addition to ErrInjected.
	Err error
	// Wait, if not nil, is called before the call is carried out: a delay until
	// the test, or ctx, lets it go on. Its error fails the call, not carried out.
	Wait func(context.Context) error
}

// Faults wraps the driver of a store: store.Wrap(f.Wrap). Decide may be called by
// many goroutines at once; a nil Decide never makes a fault. Faults is safe for
// concurrent use; set Decide before.
type Faults struct {
	Decide func(Call) Fault

	mu     sync.Mutex
	counts map[string]int
	late   []func() error
}

// Wrap returns d with faults.
func (f *Faults) Wrap(d blobstore.Driver) blobstore.Driver { return &faultDriver{f, d} }

// Land carries out the late calls, in the order they were made, and returns their
// errors joined. A late Create that meets an object does nothing, as it should.
func (f *Faults) Land() error {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	var errs []error
	for _, call := range late {
		errs = append(errs, call())
	}
	return errors.Join(errs...)
}

// Calls returns how many calls of op were made so far.
func (f *Faults) Calls(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}

// On decides for the n-th call of op, and for no other.
func On(op string, n int, fault Fault) func(Call) Fault {
	return func(c Call) Fault {
		if c.Op == op && c.N == n {
			return fault
		}
		return Fault{}
	}
}

// Randomly decides with probability p, per call of one of ops, for one of kinds.
// It locks rng; others must not use it meanwhile.
func Randomly(rng *rand.Rand, p float64, kinds []FaultKind, ops ...string) func(Call) Fault {
	var mu sync.Mutex
	return func(c Call) Fault {
		if !slices.Contains(ops, c.Op) {
			return Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		if rng.Float64() >= p {
			return Fault{}
		}
		return Fault{Kind: kinds[rng.IntN(len(kinds))]}
	}
}

// next decides on a call and waits. Its error is the call's.
func (f *Faults) next(ctx context.Context, op, key string) (Fault, error) {
	f.mu.Lock()
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	f.counts[op]++
	c := Call{Op: op, Key: key, N: f.counts[op]}
	f.mu.Unlock()
	if f.Decide == nil {
		return Fault{}, nil
	}
	fault := f.Decide(c)
	if fault.Wait != nil {
		if err := fault.Wait(ctx); err != nil {
			return fault, err
		}
	}
	if fault.Kind != None {
		err := fmt.Errorf("%w: call %d of %s", ErrInjected, c.N, op)
		if fault.Err != nil {
			err = fmt.Errorf("%w: %w", err, fault.Err)
		}
		fault.Err = err
	}
	return fault, nil
}

// mutate carries out a write as the fault has it.
func (f *Faults) mutate(ctx context.Context, op, key string, call func(context.Context) error) error {
	fault, err := f.next(ctx, op, key)
	if err != nil {
		return err
	}
	switch fault.Kind {
	case None:
		return call(ctx)
	case LoseAnswer:
		return errors.Join(fault.Err, call(ctx))
	case Late:
		f.postpone(ctx, call)
	case Fail, LoseRequest, Half: // not carried out
	}
	return fault.Err
}

// postpone keeps a call for Land; the context that it was made under may be over
// by then.
func (f *Faults) postpone(ctx context.Context, call func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, func() error { return call(context.WithoutCancel(ctx)) })
}

type faultDriver struct {
	f *Faults
	d blobstore.Driver
}

func (d *faultDriver) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	fault, err := d.f.next(ctx, OpRead, key)
	switch {
	case err != nil:
		return nil, err
	case fault.Kind == Half:
		return nil, fmt.Errorf("%w: %w", fault.Err, io.ErrUnexpectedEOF)
	case fault.Kind != None:
		return nil, fault.Err
	}
	return d.d.Read(ctx, key, off, n)
}

func (d *faultDriver) OpenReader(ctx context.Context, key string, size int64) (blobstore.DriverReader, error) {
	fault, err := d.f.next(ctx, OpOpen, key)
	if err != nil || fault.Kind != None {
		return nil, firstError(err, fault.Err)
	}
	r, err := d.d.OpenReader(ctx, key, size)
	if err != nil {
		return nil, err
	}
	return &faultReader{ctx: ctx, f: d.f, key: key, DriverReader: r}, nil
}

func firstError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

type faultReader struct {
	ctx context.Context //nolint:containedctx // as the driver's contract has it
	f   *Faults
	key string
	blobstore.DriverReader
}

func (r *faultReader) ReadAt(p []byte, off int64) (int, error) {
	fault, err := r.f.next(r.ctx, OpReadAt, r.key)
	switch {
	case err != nil:
		return 0, err
	case fault.Kind == Half:
		n, _ := r.DriverReader.ReadAt(p[:len(p)/2], off) // it fails in any case
		return n, fault.Err
	case fault.Kind != None:
		return 0, fault.Err
	}
	return r.DriverReader.ReadAt(p, off)
}

func (d *faultDriver) Put(ctx context.Context, key string, data []byte) error {
	data = slices.Clone(data)
	return d.f.mutate(ctx, OpPut, key, func(ctx context.Context) error { return d.d.Put(ctx, key, data) })
}

func (d *faultDriver) Create(ctx context.Context, key string, data []byte) (blobstore.Outcome, error) {
	fault, err := d.f.next(ctx, OpCreate, key)
	if err != nil {
		return blobstore.NotDone, err
	}
	switch fault.Kind {
	case None:
		return d.d.Create(ctx, key, data)
	case Fail:
		return blobstore.NotDone, fault.Err
	case LoseAnswer:
		if _, err := d.d.Create(ctx, key, data); err != nil {
			return blobstore.Unknown, errors.Join(fault.Err, err)
		}
	case Late:
		data = slices.Clone(data)
		d.f.postpone(ctx, func(ctx context.Context) error {
			_, err := d.d.Create(ctx, key, data)
			return err
		})
	case LoseRequest, Half: // not carried out
	}
	return blobstore.Unknown, fault.Err
}

func (d *faultDriver) NewWriter(ctx context.Context, key string) (blobstore.DriverWriter, error) {
	fault, err := d.f.next(ctx, OpWriter, key)
	if err != nil || fault.Kind != None {
		return nil, firstError(err, fault.Err)
	}
	w, err := d.d.NewWriter(ctx, key)
	if err != nil {
		return nil, err
	}
	return &faultWriter{ctx: ctx, f: d.f, key: key, w: w}, nil
}

type faultWriter struct {
	ctx context.Context //nolint:containedctx // as the driver's contract has it
	f   *Faults
	key string
	w   blobstore.DriverWriter
}

func (w *faultWriter) Write(p []byte) (int, error) {
	fault, err := w.f.next(w.ctx, OpWrite, w.key)
	switch {
	case err != nil:
		return 0, err
	case fault.Kind == None:
		return w.w.Write(p)
	case fault.Kind == Half:
		n, err := w.w.Write(p[:len(p)/2])
		return n, errors.Join(fault.Err, err)
	default:
		return 0, fault.Err
	}
}

// Close ends the writer below in any case: with Late only when it lands.
func (w *faultWriter) Close() error {
	fault, err := w.f.next(w.ctx, OpClose, w.key)
	if err != nil {
		return errors.Join(err, w.w.Abort())
	}
	switch fault.Kind {
	case None:
		return w.w.Close()
	case LoseAnswer:
		return errors.Join(fault.Err, w.w.Close())
	case Late:
		w.f.postpone(w.ctx, func(context.Context) error { return w.w.Close() })
		return fault.Err
	case Fail, LoseRequest, Half: // not carried out
	}
	return errors.Join(fault.Err, w.w.Abort())
}

func (w *faultWriter) Abort() error { return w.w.Abort() }

func (d *faultDriver) List(ctx context.Context, prefix, from string) iter.Seq2[blobstore.Info, error] {
	return func(yield func(blobstore.Info, error) bool) {
		fault, err := d.f.next(ctx, OpList, prefix)
		if err != nil {
			yield(blobstore.Info{}, err)
			return
		}
		if fault.Kind != None && fault.Kind != Half {
			yield(blobstore.Info{}, fault.Err)
			return
		}
		for info, err := range d.d.List(ctx, prefix, from) {
			if !yield(info, err) {
				return
			}
			if fault.Kind == Half {
				break
			}
		}
		if fault.Kind == Half {
			yield(blobstore.Info{}, fault.Err)
		}
	}
}

func (d *faultDriver) Stat(ctx context.Context, key string) (blobstore.Info, error) {
	fault, err := d.f.next(ctx, OpStat, key)
	if err != nil || fault.Kind != None {
		return blobstore.Info{}, firstError(err, fault.Err)
	}
	return d.d.Stat(ctx, key)
}

func (d *faultDriver) Delete(ctx context.Context, key string) error {
	return d.f.mutate(ctx, OpDelete, key, func(ctx context.Context) error { return d.d.Delete(ctx, key) })
}
