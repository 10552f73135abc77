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

func (l *lateStore) Stat(ctx context.Context, key string) (blobstore.Info, error) {
	info, err := l.Driver.Stat(ctx, key)
	return info, l.missed(ctx, key, err)
}

func (l *lateStore) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	data, err := l.Driver.Read(ctx, key, off, n)
	return data, l.missed(ctx, key, err)
}

// missed lands what was held back just after somebody did not find it.
func (l *lateStore) missed(ctx context.Context, key string, err error) error {
	if key == l.key && errors.Is(err, blobstore.ErrNotFound) {
		err = errors.Join(err, l.land(ctx, "missed"))
	}
	return err
}

// A run whose commit is undecided is run again with --resume, and only then its
// first put lands, at the worst moments: it counts once.
func TestResumedRunWhosePutLandsLate(t *testing.T) {
	table := func(e *Env, t *testing.T, n string, resume string) (*ApplyReport, error) {
		t.Helper()
		rep, err := Append(t.Context(), e, &AppendJob{
			Table: memURL(t), Schema: "id long", Files: []string{writeLines(t, `{"id":`+n+`}`)}, Resume: resume,
		})
		if err != nil {
			return nil, err
		}
		return &ApplyReport{Run: rep.Run, Version: rep.Version}, nil
	}
	update := func(e *Env, t *testing.T, n string, resume string) (*ApplyReport, error) {
		t.Helper()
		return Update(t.Context(), e, &ChangeJob{Fold: ApplyJob{Table: memURL(t), Resume: resume}, Set: []string{"id = id + " + n}, Where: "id >= 0"})
	}
	for _, c := range []struct {
		name    string
		run     func(e *Env, t *testing.T, n, resume string) (*ApplyReport, error)
		version deltatable.Version
		want    []string
	}{
		{"append that makes the table", table, 0, []string{"10"}},
		{"append", table, 1, []string{"0", "10"}},
		{"append", table, 2, []string{"0", "1", "10"}},
		{"update", update, 1, []string{"10"}},
		{"update", update, 2, []string{"10", "11"}},
	} {
		for _, moment := range []string{"missed", "writer", "create"} {
			t.Run(fmt.Sprint(c.name, ", version ", c.version, ", ", moment), func(t *testing.T) {
				late := &lateStore{}
				e := &Env{Undecided: &deltatable.Retry{Max: 1}, Open: func(ctx context.Context, url string) (*blobstore.Store, error) {
					s, err := blobstore.Open(ctx, url)
					if err != nil || url != memURL(t) {
						return s, err
					}
					return s.Wrap(func(d blobstore.Driver) blobstore.Driver { late.Driver = d; return late }), nil
				}}
				for n := range c.version {
					if _, err := table(e, t, fmt.Sprint(n), ""); err != nil {
						t.Fatal(err)
					}
				}
				late.hold = fmt.Sprintf("_delta_log/%020d.json", c.version)
				_, err := c.run(e, t, "10", "")
				undecided, ok := errors.AsType[*deltatable.UndecidedError](err)
				if !ok {
					t.Fatalf("got %v, want an undecided commit", err)
				}
				late.hold, late.when = "", func(op string) bool { return op == moment }
				rep, err := c.run(e, t, "10", ResumePoint(undecided))
				if err != nil {
					t.Fatal(err)
				}
				if late.data != nil {
					t.Error("what was held back did not land")
				}
				if rep.Run != undecided.TxnID || rep.Version == nil || *rep.Version != c.version {
					t.Errorf("run %s made version %v, want %s and %d", rep.Run, rep.Version, undecided.TxnID, c.version)
				}
				var out bytes.Buffer
				_, err = Read(t.Context(), e, &ReadJob{Table: memURL(t), Format: "csv", OrderBy: []string{"id"}, Out: &out, Limit: -1})
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(append([]string{"id"}, c.want...), strings.Fields(out.String())); d != "" {
					t.Error("-want +got\n", d)
				}
			})
		}
	}
}
