package checkpoints

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/merge/change"
)

// expected is what a run's expectations say of the rows of a batch (merge-semantics 4,
// "Expectations"): evaluated anew from the recorded conditions.
type expected struct {
	dropped []change.Outcome // by row; "" for those that stay
	failed  []bool           // by row: a fail expectation is violated
	broken  map[string]int64 // by name: rows that violate it
}

// expect evaluates expectations on recs. table has the columns that no record may have
// because no input had them: they are NULL.
func expect(all []change.Expectation, recs []arrow.RecordBatch, table *arrow.Schema, zone *time.Location) (*expected, error) {
	x := &expected{broken: map[string]int64{}}
	total := 0
	for _, rec := range recs {
		total += int(rec.NumRows())
	}
	x.dropped, x.failed = make([]change.Outcome, total), make([]bool, total)
	for _, e := range all {
		x.broken[e.Name] = 0
		parsed, err := expr.Parse(e.Condition)
		if err != nil {
			return nil, fmt.Errorf("expectation %s: %w", e.Name, err)
		}
		at := 0
		for _, rec := range recs {
			full := withColumns(rec, table)
			bound, err := expr.BindWith(parsed, full.Schema(), &expr.Options{Zone: zone})
			if err != nil {
				return nil, fmt.Errorf("expectation %s: %w", e.Name, err)
			}
			holds, err := bound.Filter(full)
			if err != nil {
				return nil, fmt.Errorf("expectation %s: %w", e.Name, err)
			}
			for i := range int(rec.NumRows()) {
				// NULL counts as violated.
				if holds.IsNull(i) || !holds.Value(i) {
					x.violated(e, at+i)
				}
			}
			at += int(rec.NumRows())
		}
	}
	return x, nil
}

func (x *expected) violated(e change.Expectation, row int) {
	x.broken[e.Name]++
	switch {
	case e.Action == change.ExpectFail:
		x.failed[row] = true
	case e.Action == change.ExpectDrop && x.dropped[row] == "":
		x.dropped[row] = change.DroppedBy(e.Name)
	}
}

// withColumns is rec with the columns of table that it lacks, all NULL.
func withColumns(rec arrow.RecordBatch, table *arrow.Schema) arrow.RecordBatch {
	fields, cols := slices.Clone(rec.Schema().Fields()), slices.Clone(rec.Columns())
	for _, f := range table.Fields() {
		if column(rec, f.Name) == nil {
			fields = append(fields, arrow.Field{Name: f.Name, Type: f.Type, Nullable: true})
			cols = append(cols, array.MakeArrayOfNull(allocator(), f.Type, int(rec.NumRows())))
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rec.NumRows())
}

// expectations evaluates the version's recorded expectations on recs; nil where there are
// none, or where it cannot be done, which is reported.
func (s *step) expectations(recs []arrow.RecordBatch) *expected {
	if len(s.rec.expectations) == 0 {
		return nil
	}
	var zone *time.Location
	var err error
	if s.rec.flags.Timezone != "" {
		zone, err = time.LoadLocation(s.rec.flags.Timezone)
	}
	var x *expected
	if err == nil {
		x, err = expect(s.rec.expectations, recs, s.cur.Schema(), zone)
	}
	if err != nil {
		s.check(CheckExpectations, Skipped, "%v", err)
		return nil
	}
	return x
}

// checkExpectations compares what the recorded expectations say of the batch with what the
// run did: rows dropped, rows that refuse the batch, numbers of violations.
func (s *step) checkExpectations(rows *outcomeRows, c *correctness) {
	droppedAny := false
	for o := range s.rec.counts {
		droppedAny = droppedAny || o.Dropped()
	}
	if len(s.rec.expectations) == 0 {
		if droppedAny {
			s.find(CheckExpectations, nil, "the commit counts %s, and no expectation is recorded that drops rows", s.rec.counts.JSON())
			s.done(CheckExpectations, "")
		}
		return
	}
	recs, source := c.recs, c.source
	if rows != nil {
		recs, source = rows.recs, "from the rows in the outcomes table"
	}
	x := s.expectations(recs)
	if x == nil {
		return
	}
	if rows != nil {
		s.compareDrops(rows, x)
	} else {
		s.countDrops(x)
	}
	for _, name := range slices.Sorted(maps.Keys(s.rec.broken)) {
		if got := s.rec.broken[name]; got != x.broken[name] {
			s.find(CheckExpectations, nil, "the commit says that %d rows violate %s, it is %d", got, name, x.broken[name])
		}
	}
	s.done(CheckExpectations, "%d expectations evaluated, %s", len(s.rec.expectations), source)
}

// compareDrops looks at each row of the outcomes table.
func (s *step) compareDrops(rows *outcomeRows, x *expected) {
	var wrongly, kept, fail keyList
	names := s.rowNames()
	at := 0
	for _, rec := range rows.recs {
		text := namer(rec, names)
		for i := range int(rec.NumRows()) {
			got, want := rows.outcomes[at], x.dropped[at]
			switch {
			case x.failed[at]:
				fail.add(func() string { return text(i) })
			case got.Dropped() && got != want:
				wrongly.add(func() string { return text(i) })
			case want != "" && got != want:
				kept.add(func() string { return text(i) })
			}
			at++
		}
	}
	s.findKeys(CheckExpectations, &wrongly, "rows were dropped by an expectation that they satisfy, or that is not the first which they violate")
	s.findKeys(CheckExpectations, &kept, "rows violate an expectation that drops them, and were not dropped")
	s.findKeys(CheckExpectations, &fail, "rows violate an expectation that refuses their batch")
}

// countDrops compares numbers only.
func (s *step) countDrops(x *expected) {
	want, failed := change.Counts{}, 0
	for i, o := range x.dropped {
		if o != "" {
			want[o]++
		}
		if x.failed[i] {
			failed++
		}
	}
	got := change.Counts{}
	for o, n := range s.rec.counts {
		if o.Dropped() {
			got[o] = n
		}
	}
	if !maps.Equal(want, got) {
		s.find(CheckExpectations, nil, "the commit counts %s among its outcomes, the expectations drop %s", got.JSON(), want.JSON())
	}
	if failed > 0 {
		s.find(CheckExpectations, nil, "%d rows violate an expectation that refuses their batch", failed)
	}
}

// rowNames are the columns that name a row of the outcomes table: the key, or where it is.
func (s *step) rowNames() []string {
	switch {
	case s.roles != nil:
		return s.roles.Keys
	case s.replace != nil:
		return s.replace.Keys
	}
	return []string{"_file", "_row"}
}

// namer gives the names of rows of rec.
func namer(rec arrow.RecordBatch, names []string) func(i int) string {
	cols := make([]arrow.Array, len(names))
	for k, n := range names {
		if cols[k] = column(rec, n); cols[k] == nil {
			cols[k] = array.NewNull(int(rec.NumRows()))
		}
	}
	return func(i int) string { return keyText(cols, i) }
}
