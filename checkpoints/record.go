package checkpoints

import (
	"fmt"
	"strconv"

	json "github.com/go-json-experiment/json"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge/change"
)

// record is what a log entry says of its commit, read leniently: what is damaged is a
// problem, not an error.
type record struct {
	known             bool // the log entry is there
	operation, writer string
	ours              bool
	run               string
	batch, digest     string         // of the batch
	table             *integrity.Sum // nil: none, or unknown
	unknown           bool           // the table digest is recorded as unknown
	counts            change.Counts  // nil: none
	flags             *change.Flags
	inserts, deletes  *int64 // nil: not recorded
	breaks            string // the operation that set the table's guard aside
	expectations      []change.Expectation
	broken            map[string]int64 // rows that violate each, by name
	rearranges        bool             // has file actions, all with dataChange=false
	dataChange        bool             // has file actions with dataChange=true
	problems          []string
}

func readRecord(e *deltatable.Entry) *record {
	r := &record{known: true, flags: &change.Flags{}}
	files := 0
	for a := range e.Adds() {
		files++
		r.dataChange = r.dataChange || a.DataChange
	}
	for a := range e.Removes() {
		files++
		r.dataChange = r.dataChange || a.DataChange
	}
	r.rearranges = files > 0 && !r.dataChange
	if e.Info == nil {
		return r
	}
	r.operation, r.writer = e.Info.Operation, e.Info.EngineInfo
	r.readTags(e.Info.Tags)
	r.readMetrics(e.Info)
	return r
}

func (r *record) readTags(tags map[string]string) {
	r.run, r.batch, r.digest = tags[change.TagRun], tags[change.TagBatch], tags[change.TagBatchDigest]
	text, hasTable := tags[change.TagTableDigest]
	switch {
	case !hasTable:
	case text == change.DigestUnknown:
		r.unknown = true
	default:
		sum, err := integrity.ParseSum(text)
		if err != nil {
			r.problem("%s: %v", change.TagTableDigest, err)
			break
		}
		r.table = &sum
	}
	if text, ok := tags[change.TagCounts]; ok {
		counts, err := change.ParseCounts(text)
		if err != nil {
			r.problem("%s: %v", change.TagCounts, err)
		} else {
			r.counts = counts
		}
	}
	flags, err := change.ParseFlags(tags[change.TagFlags])
	if err != nil {
		r.problem("%s: %v", change.TagFlags, err)
	} else {
		r.flags = flags
	}
	r.readExpectations(tags)
	r.breaks = tags[change.TagBreakGuard]
	r.ours = r.run != "" || r.digest != "" || hasTable || r.counts != nil
	switch {
	case r.digest != "" && r.run == "":
		r.problem("%s without %s", change.TagBatchDigest, change.TagRun)
	case r.digest != "" && r.counts == nil && len(r.problems) == 0:
		r.problem("%s without %s", change.TagBatchDigest, change.TagCounts)
	}
}

func (r *record) readExpectations(tags map[string]string) {
	var err error
	if r.expectations, err = change.ParseExpectations(tags[change.TagExpectations]); err != nil {
		r.problem("%s: %v", change.TagExpectations, err)
	}
	text, ok := tags[change.TagExpectationCounts]
	if !ok {
		return
	}
	if err := json.Unmarshal([]byte(text), &r.broken); err != nil {
		r.problem("%s: %v", change.TagExpectationCounts, err)
	}
}

// readMetrics finds the rows inserted and deleted, as we record them or as other engines
// name them.
func (r *record) readMetrics(info *deltatable.CommitInfo) {
	r.inserts = r.number(info.Tags, change.TagInserts)
	r.deletes = r.number(info.Tags, change.TagDeletes)
	m := info.OperationMetrics
	if r.inserts == nil && r.deletes == nil {
		r.inserts = r.number(m, "numTargetRowsInserted")
		r.deletes = r.number(m, "numTargetRowsDeleted")
	}
	zero := int64(0)
	if d := r.number(m, "numDeletedRows"); r.inserts == nil && r.deletes == nil && r.operation == "DELETE" && d != nil {
		r.inserts, r.deletes = &zero, d
	}
	mode := info.OperationParameters["mode"]
	if n := r.number(m, "numOutputRows"); r.inserts == nil && n != nil && (r.operation == "WRITE" && mode == "Append") {
		r.inserts, r.deletes = n, &zero
	}
	if r.inserts == nil && r.deletes == nil && r.rearranges {
		r.inserts, r.deletes = &zero, &zero
	}
	if r.inserts != nil && r.deletes == nil {
		r.deletes = &zero
	}
	if r.deletes != nil && r.inserts == nil {
		r.inserts = &zero
	}
}

func (r *record) number(from map[string]string, name string) *int64 {
	text, ok := from[name]
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.problem("%s is %q, not a number", name, text)
		return nil
	}
	return &n
}

func (r *record) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// who names the writer for people.
func (r *record) who() string {
	switch {
	case !r.known:
		return "an unknown writer (the log entry is gone)"
	case r.writer != "":
		return r.writer
	}
	return "a writer that gives no name"
}
