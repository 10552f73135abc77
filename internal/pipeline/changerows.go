package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/statement"
)

// ChangeJob is one invocation of delete, update or overwrite: MERGE's little
// sisters, on the same engine. Of Fold the table, the delivery and, for
// overwrite, the files and input flags are used.
type ChangeJob struct {
	Fold       ApplyJob
	Where      string   // a condition on the table's rows; "" for none
	Set        []string // of update: 'column = expression'
	All        bool     // of overwrite: the whole table
	BreakGuard bool
}

// qualifiers of the statements that the sisters become.
const (
	changedRows = "target"
	newRows     = "source"
)

// bySource is a statement of nothing but clauses on the table's own rows.
func bySource(clauses ...statement.Clause) *statement.Statement {
	return &statement.Statement{
		Target: statement.Relation{Name: changedRows}, Source: statement.Relation{Name: newRows},
		On: &expr.Literal{Kind: expr.Boolean, Text: "FALSE"}, Clauses: clauses,
	}
}

// condition parses --where.
func condition(text string) (expr.Expr, error) {
	e, err := expr.Parse(text)
	if err != nil {
		return nil, usage("--where: %v", err)
	}
	return e, nil
}

// Delete removes the rows for which the condition is true.
func Delete(ctx context.Context, e *Env, j *ChangeJob) (*ApplyReport, error) {
	if j.Where == "" {
		return nil, usage("delete needs --where")
	}
	where, err := condition(j.Where)
	if err != nil {
		return nil, err
	}
	k := &mergeKind{
		op: "delete", noMatch: true, breakGuard: j.BreakGuard, outcomes: change.OutcomesNone,
		statement: bySource(statement.Clause{When: statement.NotMatchedBySource, Condition: where, Action: statement.Delete}),
		operation: "DELETE", parameters: map[string]string{"predicate": jsonText([]string{where.String()})},
	}
	return e.fold(ctx, &j.Fold, k)
}

// Update sets columns of the rows for which the condition is true, or of all.
func Update(ctx context.Context, e *Env, j *ChangeJob) (*ApplyReport, error) {
	if len(j.Set) == 0 {
		return nil, usage("update needs --set")
	}
	clause := statement.Clause{When: statement.NotMatchedBySource, Action: statement.Update}
	for _, text := range j.Set {
		set, err := statement.ParseAssignments(text)
		if err != nil {
			return nil, usage("--set: %v", err)
		}
		clause.Set = append(clause.Set, set...)
	}
	parameters := map[string]string{}
	if j.Where != "" {
		var err error
		if clause.Condition, err = condition(j.Where); err != nil {
			return nil, err
		}
		parameters["predicate"] = jsonText([]string{clause.Condition.String()})
	}
	k := &mergeKind{
		op: "update", noMatch: true, breakGuard: j.BreakGuard, outcomes: change.OutcomesNone,
		statement: bySource(clause), operation: "UPDATE", parameters: parameters,
	}
	return e.fold(ctx, &j.Fold, k)
}

// Overwrite replaces the rows for which the condition is true, or all, by those
// of the files. Every new row must satisfy the condition, or the batch is
// refused.
func Overwrite(ctx context.Context, e *Env, j *ChangeJob) (*ApplyReport, error) {
	if (j.Where == "") == !j.All {
		return nil, usage("overwrite needs --where or --all, one of them")
	}
	gone := statement.Clause{When: statement.NotMatchedBySource, Action: statement.Delete}
	k := &mergeKind{
		op: "overwrite", noMatch: true, breakGuard: j.BreakGuard, operation: "WRITE",
		parameters: map[string]string{"mode": "Overwrite", "partitionBy": "[]"},
	}
	if !j.All {
		where, err := condition(j.Where)
		if err != nil {
			return nil, err
		}
		gone.Condition = where
		k.parameters["predicate"] = where.String()
		k.check = func(a *applier) error { return satisfies(a, where) }
	}
	k.statement = bySource(gone)
	check := k.check
	k.check = func(a *applier) error {
		k.statement = bySource(gone, insertPresent(a.batch.Schema))
		if check == nil {
			return nil
		}
		return check(a)
	}
	if len(j.Fold.Files) == 0 {
		return nil, usage("no input file is given")
	}
	return e.fold(ctx, &j.Fold, k)
}

// insertPresent inserts the columns that the files have; others are NULL.
func insertPresent(sch *arrow.Schema) statement.Clause {
	c := statement.Clause{When: statement.NotMatched, Action: statement.Insert}
	for _, f := range sch.Fields() {
		c.Set = append(c.Set, statement.Assignment{Column: f.Name, Value: &expr.Name{Parts: []string{newRows, f.Name}}})
	}
	return c
}

// satisfies refuses new rows for which the condition of an overwrite is not true.
func satisfies(a *applier, where expr.Expr) error {
	// The condition reads the table's columns; those that the files lack are NULL.
	var fields []arrow.Field
	for _, f := range a.snap.Schema().Fields() {
		fields = append(fields, arrow.Field{Name: f.Name, Type: f.Type, Nullable: true})
	}
	b, err := expr.BindWith(where, arrow.NewSchema(fields, nil), &expr.Options{Zone: a.job.Zone, Now: a.began})
	if err != nil {
		return usage("--where: %v", err)
	}
	all := 0 // rows of the files before
	for n, f := range a.files {
		row := int64(0)
		for _, rec := range f.Records {
			held, err := b.Filter(widened(rec, fields))
			if err != nil {
				return &RuleError{fmt.Sprintf("%s: %v", f.Name, err)}
			}
			for i := range held.Len() {
				if !held.Value(i) && (a.dropped == nil || a.dropped[all+int(row)+i] == "") {
					return &merge.RefusedError{Culprits: 1, Reason: fmt.Sprintf("%s:%d: the row does not satisfy --where %s: %s",
						a.files[n].Name, f.Line(row+int64(i)), where, rowText(rec, i))}
				}
			}
			row += rec.NumRows()
		}
		all += int(f.Rows)
	}
	return nil
}

// widened gives a record the columns that it lacks, NULL.
func widened(rec arrow.RecordBatch, fields []arrow.Field) arrow.RecordBatch {
	cols := make([]arrow.Array, len(fields))
	for i, f := range fields {
		if at := rec.Schema().FieldIndices(f.Name); len(at) == 1 {
			cols[i] = rec.Column(at[0])
		} else {
			cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(rec.NumRows()))
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rec.NumRows())
}

func rowText(rec arrow.RecordBatch, i int) string {
	var parts []string
	for c, f := range rec.Schema().Fields() {
		parts = append(parts, f.Name+"="+rowfile.Format(rec.Column(c), i))
	}
	return strings.Join(parts, " ")
}
