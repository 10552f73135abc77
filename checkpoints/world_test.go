package checkpoints

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge/change"
)

// testing.T and rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// change1 is one change of a test batch; payload "-" and version "NULL" are NULL.
type change1 struct{ key, version, op, payload string }

// row1 is one stored row.
type row1 struct {
	version int64
	status  string
	payload string // "" is NULL
}

var testRoles = &change.Roles{
	Mode: change.Guarded, Keys: []string{"k"}, Versions: []string{"v"}, MinVersion: new("1"),
	Operation: "operation", UpsertWord: "upsert", DeleteWord: "delete",
	StatusForm: change.StatusWord, Status: "status", Payload: []string{"p"}, Policy: change.Quarantine,
}

const (
	tableDDL    = "k string, v long, status string, p string"
	outcomesDDL = "_run_id string, _version long, _read_version long, _file string, _row long, batch string, " +
		"k string, v long, operation string, p string, outcome string"
)

// nullable cell of a test batch.
func text(b *array.StringBuilder, v string, null bool) {
	if null {
		b.AppendNull()
		return
	}
	b.Append(v)
}

// batchRecord is a test batch in Arrow.
func batchRecord(t tester, changes []change1) arrow.RecordBatch {
	sch := arrow.NewSchema([]arrow.Field{
		{Name: "k", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "operation", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "p", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(allocator(), sch)
	for _, c := range changes {
		text(b.Field(0).(*array.StringBuilder), c.key, false)
		if v, err := strconv.ParseInt(c.version, 10, 64); err == nil {
			b.Field(1).(*array.Int64Builder).Append(v)
		} else {
			b.Field(1).AppendNull()
		}
		text(b.Field(2).(*array.StringBuilder), c.op, c.op == "NULL")
		text(b.Field(3).(*array.StringBuilder), c.payload, c.payload == "-")
	}
	return b.NewRecordBatch()
}

// file1 is a live file of the world.
type file1 struct {
	add  *deltatable.Add
	keys []string
}

// world is a guarded table that tests write to with deltatable's own writers, and a model of
// it. What a faulty writer does is put in by tamper.
type world struct {
	t        tester
	ctx      context.Context
	table    *deltatable.Table
	outcomes *deltatable.Table
	snap     *deltatable.Snapshot
	state    map[string]row1
	files    []file1
	batches  memoryBatches
	perFile  int // rows of a file of new keys
	// tamper changes the rows about to be written, in place of the right ones.
	tamper func(rows []keyed) []keyed
	// tags changes the commit before it is made.
	tags func(map[string]string)
	// outcome changes outcomes before they are written.
	outcome func(i int, o change.Outcome) change.Outcome
}

type keyed struct {
	key string
	row row1
}

type memoryBatches map[string]*Batch

func (m memoryBatches) Batch(_ context.Context, want *BatchRequest) (*Batch, bool, error) {
	b, ok := m[want.Digest]
	return b, ok, nil
}

func newWorld(ctx context.Context, t tester) *world {
	w := &world{t: t, ctx: ctx, state: map[string]row1{}, batches: memoryBatches{}, perFile: 3}
	w.table = newTable(ctx, t)
	w.outcomes = newTable(ctx, t)
	w.create(w.outcomes, outcomesDDL, nil, nil)
	w.snap = w.create(w.table, tableDDL, testRoles.Properties(), map[string]string{change.TagTableDigest: integrity.Sum{}.String()})
	return w
}

func newTable(ctx context.Context, t tester) *deltatable.Table {
	t.Helper()
	store, err := blobstore.Open(ctx, "mem://"+uuid.NewString())
	if err != nil {
		t.Fatalf("%v", err)
	}
	return deltatable.NewTable(store, nil)
}

func (w *world) create(table *deltatable.Table, ddl string, props, tags map[string]string) *deltatable.Snapshot {
	w.t.Helper()
	sch, err := deltatable.ParseDDL(ddl)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	md, p, err := deltatable.NewTableMetadata(sch, nil, props)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	return w.commit(table, nil, &deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: p, Tags: tags})
}

func (w *world) commit(table *deltatable.Table, read *deltatable.Snapshot, c *deltatable.Commit) *deltatable.Snapshot {
	w.t.Helper()
	if _, err := table.TryCommit(w.ctx, read, c); err != nil {
		w.t.Fatalf("commit: %v", err)
	}
	s, err := table.Snapshot(w.ctx)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	return s
}

// write makes data files of rec.
func (w *world) write(table *deltatable.Table, s *deltatable.Snapshot, rec arrow.RecordBatch) []*deltatable.Add {
	w.t.Helper()
	p, err := s.Layout().Partition(rec, 0)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	f, err := table.NewFileWriter(w.ctx, s.Layout(), p)
	if err == nil {
		err = f.Write(rec)
	}
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	adds, err := f.Close()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	return adds
}

func (w *world) writeRows(rows []keyed) *deltatable.Add {
	w.t.Helper()
	b := array.NewRecordBuilder(allocator(), w.snap.Schema())
	for _, r := range rows {
		b.Field(0).(*array.StringBuilder).Append(r.key)
		b.Field(1).(*array.Int64Builder).Append(r.row.version)
		b.Field(2).(*array.StringBuilder).Append(r.row.status)
		text(b.Field(3).(*array.StringBuilder), r.row.payload, r.row.payload == "")
	}
	adds := w.write(w.table, w.snap, b.NewRecordBatch())
	if len(adds) != 1 {
		w.t.Fatalf("%d files", len(adds))
	}
	return adds[0]
}

// digest is the table digest of the model, written out by hand and not by package ordered.
func (w *world) digest() integrity.Sum {
	var sum integrity.Sum
	for key, r := range w.state {
		h := xxh3.Hash128(canonical(key, r.version, r.status))
		sum = sum.Plus(integrity.Sum{Hi: h.Hi, Lo: h.Lo})
	}
	return sum
}

func canonical(key string, version int64, status string) []byte {
	b := append([]byte{1}, key...)
	b = append(b, 0, 1, 1)
	b = binary.BigEndian.AppendUint64(b, uint64(version)^1<<63)
	b = append(append(b, 1), status...)
	return append(b, 0, 1)
}

// apply commits a batch as a right merge would (but for what tamper does) and gives the
// version.
func (w *world) apply(changes ...change1) deltatable.Version {
	w.t.Helper()
	rec := batchRecord(w.t, changes)
	run, digest := uuid.NewString(), fmt.Sprintf("%x", xxh3.HashString(fmt.Sprint(changes)))
	w.batches[digest] = &Batch{Files: []BatchFile{{Records: []arrow.RecordBatch{rec}}}}
	next, f, _ := w.fold(rec)
	outcomes := f.outcomes
	adds, removes, inserts := w.rewrite(next)
	counts := change.Counts{}
	for i := range outcomes {
		counts[outcomes[i]]++
		if w.outcome != nil {
			outcomes[i] = w.outcome(i, outcomes[i])
		}
	}
	tags := map[string]string{
		change.TagRun: run, change.TagBatch: "b", change.TagBatchDigest: digest, change.TagCounts: counts.JSON(),
		change.TagTableDigest: w.digest().String(), change.TagInserts: fmt.Sprint(inserts), change.TagDeletes: "0",
		change.TagFlags: `{"policy":"quarantine"}`,
	}
	if w.tags != nil {
		w.tags(tags)
	}
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "MERGE", Adds: adds, Removes: removes, Tags: tags})
	w.writeOutcomes(run, rec, outcomes)
	return w.snap.Version()
}

// fold is the model: the audit's own fold, which testdata/fold.txt pins down.
func (w *world) fold(rec arrow.RecordBatch) (map[string]row1, folded, []input) {
	w.t.Helper()
	rl := &rules{roles: testRoles, policy: change.Quarantine, off: map[change.Check]bool{}, partitions: map[string]bool{}, minimum: int64(1)}
	inputs, err := readInputs([]arrow.RecordBatch{rec}, nil, rl)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	before := map[string]stored{}
	names := map[string]string{}
	for key, r := range w.state {
		form := string(appendText([]byte{'s'}, key))
		names[form] = key
		s, _ := change.ParseStatus(r.status)
		p := "\x00"
		if r.payload != "" {
			p = string(appendText([]byte{'s'}, r.payload))
		}
		before[form] = stored{[]any{r.version}, s, p}
	}
	for i, u := range inputs {
		if u.key != "" {
			names[u.key] = keyText([]arrow.Array{rec.Column(0)}, i)
		}
	}
	f := foldBatch(before, inputs, noPayload(1))
	next := map[string]row1{}
	for form, s := range f.after {
		payload := ""
		if s.payload != "\x00" {
			_, n := binary.Uvarint([]byte(s.payload[1:]))
			payload = s.payload[1+n:]
		}
		next[names[form]] = row1{s.version[0].(int64), s.status.String(), payload}
	}
	return next, f, inputs
}

// rewrite makes next the state: files with changed keys are rewritten, new keys go into
// files of their own.
func (w *world) rewrite(next map[string]row1) (adds, removes []*deltatable.Add, inserts int) {
	w.t.Helper()
	var kept []file1
	for _, f := range w.files {
		if !slices.ContainsFunc(f.keys, func(k string) bool { return w.state[k] != next[k] }) {
			kept = append(kept, f)
			continue
		}
		var rows []keyed
		for _, k := range f.keys {
			rows = append(rows, keyed{k, next[k]})
		}
		a := w.writeRows(w.tampered(rows))
		adds, removes = append(adds, a), append(removes, f.add)
		kept = append(kept, file1{a, f.keys})
	}
	var fresh []string
	for _, k := range slices.Sorted(maps.Keys(next)) {
		if _, ok := w.state[k]; !ok {
			fresh = append(fresh, k)
		}
	}
	for keys := range slices.Chunk(fresh, w.perFile) {
		var rows []keyed
		for _, k := range keys {
			rows = append(rows, keyed{k, next[k]})
		}
		a := w.writeRows(w.tampered(rows))
		adds = append(adds, a)
		kept = append(kept, file1{a, keys})
	}
	w.state, w.files = next, kept
	return adds, removes, len(fresh)
}

func (w *world) tampered(rows []keyed) []keyed {
	if w.tamper == nil {
		return rows
	}
	return w.tamper(rows)
}

func (w *world) writeOutcomes(run string, rec arrow.RecordBatch, outcomes []change.Outcome) {
	w.t.Helper()
	s, err := w.outcomes.Snapshot(w.ctx)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	b := array.NewRecordBuilder(allocator(), s.Schema())
	for i, o := range outcomes {
		b.Field(0).(*array.StringBuilder).Append(run)
		b.Field(1).(*array.Int64Builder).Append(int64(w.snap.Version()))
		b.Field(2).(*array.Int64Builder).Append(int64(w.snap.Version()) - 1)
		b.Field(3).(*array.StringBuilder).Append("f")
		b.Field(4).(*array.Int64Builder).Append(int64(i + 1))
		b.Field(5).(*array.StringBuilder).Append("b")
		for c := range 4 {
			if rec.Column(c).IsNull(i) {
				b.Field(6 + c).AppendNull()
			} else if err := b.Field(6 + c).AppendValueFromString(rec.Column(c).ValueStr(i)); err != nil {
				w.t.Fatalf("%v", err)
			}
		}
		b.Field(10).(*array.StringBuilder).Append(string(o))
	}
	adds := w.write(w.outcomes, s, b.NewRecordBatch())
	w.commit(w.outcomes, s, &deltatable.Commit{Operation: "WRITE", Adds: adds, BlindAppend: true})
}

// audit runs the audit with everything at hand.
func (w *world) audit(change func(*Options)) *Report {
	w.t.Helper()
	o := &Options{Outcomes: w.outcomes, Batches: w.batches}
	if change != nil {
		change(o)
	}
	r, err := Audit(w.ctx, w.table, o)
	if err != nil {
		w.t.Fatalf("audit: %v", err)
	}
	return r
}

// editEntry rewrites the log entry of a version.
func (w *world) editEntry(v deltatable.Version, edit func([]byte) []byte) {
	w.t.Helper()
	key := fmt.Sprintf("_delta_log/%020d.json", v)
	data, err := w.table.Store().Get(w.ctx, key)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	out := edit(bytes.Clone(data))
	if bytes.Equal(out, data) {
		w.t.Fatalf("the edit of %s changed nothing:\n%s", key, data)
	}
	if err := w.table.Store().Put(w.ctx, key, out); err != nil {
		w.t.Fatalf("%v", err)
	}
}

// fileOf is the live file that holds a key.
func (w *world) fileOf(key string) *deltatable.Add {
	for _, f := range w.files {
		if slices.Contains(f.keys, key) {
			return f.add
		}
	}
	w.t.Fatalf("no file holds %s", key)
	return nil
}
