package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// ColumnReport is one column of a table as describe shows it.
type ColumnReport struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
	// Role is key, version or sequence, status or payload, "" in a plain table.
	Role string `json:"role,omitzero"`
	// Partition is the column's place among the partition columns, from 1; 0:
	// it is none.
	Partition int `json:"partition,omitzero"`
}

// DescribeReport is what describe tells of a table at its latest version.
type DescribeReport struct {
	Table, ID, Name, Description string
	Version                      deltatable.Version
	Timestamp                    time.Time
	Protocol                     *deltatable.Protocol
	Mode                         change.Mode
	Columns                      []ColumnReport
	Properties                   map[string]string
	Files                        int
	Bytes                        int64
	// Rows is the number of rows by statistics, nil where a file has none.
	Rows *int64
	// Txns are the recorded transaction identifiers.
	Txns []*deltatable.Txn
	// Roles are those of a guarded table, else nil. Outcomes is where the
	// outcomes are, "" for a plain table that does not say.
	Roles *change.Roles
	// Replace are the roles of a table in mode replace, else nil.
	Replace  *change.ReplaceRoles
	Outcomes string
	// Problem says what is wrong with the roles that the table remembers.
	Problem string
	// ReadOnly says why the table cannot be written, "" where it can.
	ReadOnly string
}

// Describe reads what a table is, without its rows.
func Describe(ctx context.Context, e *Env, table string) (*DescribeReport, error) {
	t, err := e.OpenTable(ctx, table)
	if err != nil {
		return nil, err
	}
	snap, err := t.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", table, err)
	}
	md := snap.Metadata()
	rep := &DescribeReport{
		Table: t.Store().URL(), ID: md.ID, Name: md.Name, Description: md.Description,
		Version: snap.Version(), Timestamp: snap.Timestamp(), Protocol: snap.Protocol(),
		Properties: snap.Properties(), Files: len(snap.Files()), Txns: snap.Txns(),
	}
	var rows int64
	known := true
	for _, f := range snap.Files() {
		rep.Bytes += f.Size
		n, ok := snap.NumRecords(f)
		rows, known = rows+n, known && ok
	}
	if known {
		rep.Rows = &rows
	}
	if rep.Mode, err = change.ModeOf(rep.Properties); err == nil && rep.Mode == change.Guarded {
		rep.Roles, err = GuardedRoles(snap)
	}
	if err == nil && rep.Mode == change.Replace {
		rep.Replace, _, err = change.ReplaceRolesFromProperties(rep.Properties)
	}
	if err != nil {
		rep.Problem = err.Error()
	}
	if where, set := rep.Properties[change.PropOutcomes]; where == change.OutcomesNone {
		rep.Outcomes = where
	} else if set || rep.Mode != change.Plain {
		rep.Outcomes = OutcomesURL(rep.Table, where)
	}
	if err := snap.CheckWritable(); err != nil {
		rep.ReadOnly = err.Error()
	}
	rep.Columns, err = columnsOf(snap, rep)
	return rep, err
}

func columnsOf(snap *deltatable.Snapshot, rep *DescribeReport) ([]ColumnReport, error) {
	var out []ColumnReport
	for _, f := range snap.DeltaSchema().Fields() {
		typ := f.Type.String()
		if c, ok := f.CharVarchar(); ok {
			typ = c.String()
		}
		out = append(out, ColumnReport{
			Name: f.Name, Type: typ, Nullable: f.Nullable, Role: roleOf(rep, f.Name),
			Partition: slices.Index(snap.PartitionColumns(), f.Name) + 1,
		})
	}
	return out, nil
}

func roleOf(rep *DescribeReport, column string) string {
	switch r, x := rep.Roles, rep.Replace; {
	case r == nil && x == nil:
		return ""
	case r != nil && slices.Contains(r.Keys, column), x != nil && slices.Contains(x.Keys, column):
		return "key"
	case r != nil && slices.Contains(r.Versions, column):
		return "version"
	case r != nil && column == r.Status:
		return "status"
	case x != nil && column == x.Sequence:
		return "sequence"
	}
	return "payload"
}

// HistoryEntry is one version as history shows it.
type HistoryEntry struct {
	Version   deltatable.Version
	Timestamp time.Time
	Operation string // "" where the log entry says none
	Engine    string
	// Run, Batch and Counts are deltafold's own record, zero for other writers.
	Run, Batch string
	Counts     change.Counts
	Parameters map[string]string
	Metrics    map[string]string
	// Inserted is the number of rows added for good, nil where it is not recorded.
	Inserted *int64
	// Expectations are the numbers of rows that violated each, by name.
	Expectations map[string]int64
	// BreakGuard is the operation that set the table's guard aside, "" for none.
	BreakGuard string
	// SingleWriter says that the store did not exclude other writers, which the
	// user vouched for.
	SingleWriter bool
	Message      string // userMetadata
}

// History gives the newest limit versions (0: all that the log still has),
// newest first.
func History(ctx context.Context, e *Env, table string, limit int) ([]HistoryEntry, error) {
	t, err := e.OpenTable(ctx, table)
	if err != nil {
		return nil, err
	}
	entries, err := t.History(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("history of table %s: %w", table, err)
	}
	out := make([]HistoryEntry, len(entries))
	for i, entry := range entries {
		h := HistoryEntry{Version: entry.Version, Timestamp: entry.Timestamp.UTC()}
		if info := entry.Info; info != nil {
			h.Operation, h.Engine, h.Message = info.Operation, info.EngineInfo, info.UserMetadata
			h.Parameters, h.Metrics = info.OperationParameters, info.OperationMetrics
			h.Run, h.Batch = info.Tags[change.TagRun], info.Tags[change.TagBatch]
			if h.Counts, err = change.ParseCounts(info.Tags[change.TagCounts]); err != nil {
				h.Counts = nil // damaged or absent: the audit tells which
			}
			h.BreakGuard = info.Tags[change.TagBreakGuard]
			h.SingleWriter = info.Tags[deltatable.TagUnsafeSingleWriter] == "true"
			if err := json.Unmarshal([]byte(info.Tags[change.TagExpectationCounts]), &h.Expectations); err != nil {
				h.Expectations = nil // likewise
			}
			if n, err := strconv.ParseInt(info.Tags[change.TagInserts], 10, 64); err == nil {
				h.Inserted = &n
			}
		}
		out[i] = h
	}
	return out, nil
}
