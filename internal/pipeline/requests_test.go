package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/internal/pipeline"
)

// requestLatency is that of a request on the fake clock; time divided by it is a
// number of round trips that followed on each other.
const requestLatency = 20 * time.Millisecond

// onBucket applies batches to a guarded table on an object store in memory, in a
// bubble of synctest; each with stores of its own, as processes do.
type onBucket struct {
	t       *testing.T
	bucket  *blobstoretest.Bucket
	dir     string
	rng     *rand.Rand
	payload int // bytes of a row
	batches int
}

// applied is what an apply cost, by kind and place of its requests.
type applied struct {
	State, Outcomes, Data map[string]int // of the state's log, the outcomes' log, and files of both
	Trips                 int            // one after the other
}

// apply folds rows of files (partitions) first to last-1, each with so many rows,
// as version v of their source.
func (o *onBucket) apply(first, last, rows, v int) *applied {
	o.t.Helper()
	var b strings.Builder
	for f := first; f < last; f++ {
		for i := range rows {
			fmt.Fprintf(&b, `{"k":"k-%05d-%05d","v":%d,"f":%d,"p":"`, f, i, v, f)
			for range o.payload / 16 {
				fmt.Fprintf(&b, "%016x", o.rng.Uint64())
			}
			b.WriteString("\"}\n")
		}
	}
	o.batches++
	file := filepath.Join(o.dir, fmt.Sprintf("batch-%d.jsonl", o.batches))
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.bucket.Trace()
	began := time.Now()
	rep, err := pipeline.Apply(o.t.Context(), &pipeline.Env{Open: o.bucket.Open}, &pipeline.ApplyJob{
		Table: "bucket://t", Files: []string{file}, Schema: "k string, v long, f long, p string", PartitionBy: []string{"f"},
		Roles: pipeline.RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}},
	})
	if err != nil || rep.Version == nil || len(rep.Warnings) > 0 {
		o.t.Fatal(rep, err)
	}
	out := &applied{State: map[string]int{}, Outcomes: map[string]int{}, Data: map[string]int{}, Trips: int(time.Since(began) / requestLatency)}
	for _, request := range o.bucket.Trace() {
		kind, what, _ := strings.Cut(request, " ")
		switch {
		case strings.HasPrefix(what, "t/_outcomes/_delta_log/"):
			out.Outcomes[kind]++
		case strings.HasPrefix(what, "t/_delta_log/"):
			out.State[kind]++
		default:
			out.Data[kind]++
		}
	}
	o.t.Logf("%d files with %d rows: %+v", last-first, rows, *out)
	return out
}

// is checks a budget of docs/requests.md "A guarded merge".
func (o *onBucket) is(what string, got, want *applied) {
	o.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		o.t.Errorf("%s (-budget +requests):\n%s", what, d)
	}
}

func inBucket(t *testing.T, payload int, test func(o *onBucket)) {
	synctest.Test(t, func(t *testing.T) {
		o := &onBucket{t: t, bucket: blobstoretest.NewBucket(), dir: t.TempDir(), rng: rand.New(rand.NewPCG(1, 2)), payload: payload}
		o.bucket.Latency = requestLatency
		test(o)
	})
}

// docs/requests.md "A guarded merge": one of a thousand small files.
func TestRequestsOfOneInAThousand(t *testing.T) {
	const files = 1000
	inBucket(t, 16, func(o *onBucket) {
		first := o.apply(0, files, 2, 1)
		// One put a file, four at once, beside that of the outcomes.
		if first.Data["put"] != files+1 || first.Trips > files/4+10 {
			t.Errorf("%+v", first)
		}
		for v := range 3 {
			logs := func() map[string]int { return map[string]int{"get": 1 + 1 + v, "list": 1, "put": 1} }
			o.is("one file of a thousand", o.apply(500, 501, 1, 2+v), &applied{
				State: logs(), Outcomes: logs(),
				Data:  map[string]int{"get": 1, "put": 2}, // the file, whole; its successor, the outcomes
				Trips: 3 + 3 + 1 + 1 + 1 + 1,
			})
		}
	})
}

// docs/requests.md "A guarded merge": n files of N that are larger than 1 MiB.
func TestRequestsOfSomeFiles(t *testing.T) {
	const files, touched = 12, 4
	inBucket(t, 640, func(o *onBucket) {
		o.apply(0, files, 2500, 1)
		o.is("4 files of 12", o.apply(3, 3+touched, 1, 2), &applied{
			State: map[string]int{"get": 2, "list": 1, "put": 1}, Outcomes: map[string]int{"get": 2, "list": 1, "put": 1},
			// The end, keys and versions, all columns (nothing again of the end); successors, outcomes.
			Data:  map[string]int{"get": touched * 3, "put": touched + 1},
			Trips: 3 + 3 + 2 + 2 + 1 + 1,
		})
	})
}
