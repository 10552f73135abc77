package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
)

// lateStore holds back the first log entry of a version and answers nothing for it,
// until a call has it land.
type lateStore struct {
	blobstore.Driver
	hold string // key of the entry; "" once nothing is held back
	key  string
	data []byte
	when func(op string) bool // before which call what was held back lands
}

func (l *lateStore) land(ctx context.Context, op string) error {
	if l.data == nil || l.when == nil || !l.when(op) {
		return nil
	}
	key, data := l.key, l.data
	l.data = nil
	_, err := l.Driver.Create(ctx, key, data)
	return err
}

func (l *lateStore) Create(ctx context.Context, key string, data []byte) (blobstore.Outcome, error) {
	if key == l.hold {
		l.key, l.data = key, bytes.Clone(data)
		return blobstore.Unknown, errors.New("no answer")
	}
	if err := l.land(ctx, "create"); err != nil {
		return blobstore.NotDone, err
	}
	return l.Driver.Create(ctx, key, data)
}

func (l *lateStore) NewWriter(ctx context.Context, key string) (blobstore.DriverWriter, error) {
	if err := l.land(ctx, "writer"); err != nil {
		return nil, err
	}
	return l.Driver.NewWriter(ctx, key)
}

func (l *lateStore) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	data, err := l.Driver.Read(ctx, key, off, n)
	if key == l.key && errors.Is(err, blobstore.ErrNotFound) {
		err = errors.Join(err, l.land(ctx, "missed"))
	}
	return data, err
}

// An append whose commit is undecided is run again with --resume, and only then
// its first put lands, at the worst moments: the rows are there once.
func TestResumedAppendWhosePutLandsLate(t *testing.T) {
	for version := range deltatable.Version(3) {
		for _, moment := range []string{"missed", "writer", "create"} {
			t.Run(fmt.Sprint(moment, " at version ", version), func(t *testing.T) {
				table := memURL(t)
				late := &lateStore{}
				e := &Env{Undecided: &deltatable.Retry{Max: 1}, Open: func(ctx context.Context, url string) (*blobstore.Store, error) {
					s, err := blobstore.Open(ctx, url)
					if err != nil {
						return nil, err
					}
					return s.Wrap(func(d blobstore.Driver) blobstore.Driver { late.Driver = d; return late }), nil
				}}
				job := func(n int, resume string) *AppendJob {
					return &AppendJob{Table: table, Schema: "id long", Files: []string{writeLines(t, fmt.Sprintf(`{"id":%d}`, n))}, Resume: resume}
				}
				var want []string
				for n := range int(version) {
					if _, err := Append(t.Context(), e, job(n, "")); err != nil {
						t.Fatal(err)
					}
					want = append(want, fmt.Sprintf(`{"id":%d}`, n))
				}
				late.hold = fmt.Sprintf("_delta_log/%020d.json", version)
				_, err := Append(t.Context(), e, job(9, ""))
				undecided, ok := errors.AsType[*deltatable.UndecidedError](err)
				if !ok {
					t.Fatalf("got %v, want an undecided commit", err)
				}
				late.hold, late.when = "", func(op string) bool { return op == moment }
				rep, err := Append(t.Context(), e, job(9, ResumePoint(undecided)))
				if err != nil {
					t.Fatal(err)
				}
				if rep.Run != undecided.TxnID || rep.Version == nil || *rep.Version != version {
					t.Errorf("run %s made version %v, want %s and %d", rep.Run, rep.Version, undecided.TxnID, version)
				}
				var out bytes.Buffer
				if _, err := Read(t.Context(), e, &ReadJob{Table: table, Format: "jsonl", Out: &out, Limit: -1}); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(append(want, `{"id":9}`), strings.Fields(out.String()), cmp.Transformer("set", func(s []string) map[string]int {
					m := map[string]int{}
					for _, v := range s {
						m[v]++
					}
					return m
				})); d != "" {
					t.Error("-want +got\n", d)
				}
			})
		}
	}
}
