package tabletest

import (
	"fmt"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/merge/change"
)

// World is a guarded table as a test would make it: its roles and the schemas
// that follow from them. It is not changed once made.
type World struct {
	Roles *change.Roles
	// Table is the state table's schema: key, version, status, payload.
	Table *arrow.Schema
	// Input is the schema of batches: label, key, version, operation, payload.
	Input *arrow.Schema
	// Partition are the table's partition columns.
	Partition []string
	// Condition evaluates Roles.DeletesWhen, nil without one.
	Condition func(Row) (deletes, null bool)
}

// Oracle is an empty oracle for the world.
func (w *World) Oracle() *Oracle {
	return &Oracle{Roles: w.Roles, Partition: w.Partition, Condition: w.Condition}
}

// Default is the world of the default flags: entity_id, source_version,
// operation, value, change_id.
func Default() *World {
	text, long := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	minimum := "1"
	return newWorld(&change.Roles{
		Mode: change.Guarded, Keys: []string{"entity_id"}, Versions: []string{"source_version"}, MinVersion: &minimum,
		Operation: "operation", UpsertWord: "upsert", DeleteWord: "delete", StatusForm: change.StatusWord, Status: "status",
		ChangeID: "change_id", Payload: []string{"value"}, Policy: change.Quarantine, InputTypes: map[string]string{"change_id": "string", "operation": "string"},
	}, map[string]arrow.DataType{"entity_id": text, "source_version": long, "value": text})
}

// newWorld derives the schemas; types has the key, version and payload columns
// and those that only the condition reads.
func newWorld(roles *change.Roles, types map[string]arrow.DataType) *World {
	w := &World{Roles: roles}
	var table, input []arrow.Field
	add := func(to *[]arrow.Field, name string, t arrow.DataType) {
		*to = append(*to, arrow.Field{Name: name, Type: t, Nullable: true})
	}
	if roles.ChangeID != "" {
		add(&input, roles.ChangeID, arrow.BinaryTypes.String)
	}
	for _, list := range [][]string{roles.Keys, roles.Versions} {
		for _, c := range list {
			add(&table, c, types[c])
			add(&input, c, types[c])
		}
	}
	switch roles.StatusForm {
	case change.StatusWord:
		add(&table, roles.Status, arrow.BinaryTypes.String)
	case change.StatusBoolean:
		add(&table, roles.Status, arrow.FixedWidthTypes.Boolean)
		add(&input, roles.Status, arrow.FixedWidthTypes.Boolean)
	case change.StatusNone:
	}
	if roles.Operation != "" {
		add(&input, roles.Operation, arrow.BinaryTypes.String)
	}
	for _, c := range roles.Payload {
		add(&table, c, types[c])
		add(&input, c, types[c])
	}
	if roles.DeletesWhen != "" {
		add(&input, kindColumn, arrow.BinaryTypes.String)
	}
	w.Table, w.Input = arrow.NewSchema(table, nil), arrow.NewSchema(input, nil)
	return w
}

// kindColumn is read by the condition of random worlds: kind = 'gone'.
const kindColumn = "kind"

// WorldOptions narrow what RandomWorld may choose; the zero value is everything.
type WorldOptions struct {
	// Policy is the policy, "" for any that the status form allows.
	Policy change.Policy
	// NoPartitions keeps the table in one partition.
	NoPartitions bool
	// FlatPayload keeps arrays, maps and structs out of the payload.
	FlatPayload bool
	// NoConditions keeps Roles.DeletesWhen out.
	NoConditions bool
}

// keyShapes are the key columns of random worlds.
var keyShapes = [][]arrow.DataType{
	{arrow.BinaryTypes.String},
	{arrow.PrimitiveTypes.Int64},
	{arrow.BinaryTypes.String, arrow.BinaryTypes.String},
	{arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.FixedWidthTypes.Date32},
	{&arrow.Decimal128Type{Precision: 20, Scale: 2}},
	{arrow.FixedWidthTypes.Date32},
	{arrow.FixedWidthTypes.Timestamp_us},
	{&arrow.TimestampType{Unit: arrow.Microsecond}},
	{arrow.BinaryTypes.Binary},
	{arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8},
}

// versionShapes are the version columns of random worlds.
var versionShapes = [][]arrow.DataType{
	{arrow.PrimitiveTypes.Int64},
	{arrow.PrimitiveTypes.Int64},
	{arrow.PrimitiveTypes.Int64},
	{arrow.PrimitiveTypes.Int16},
	{&arrow.Decimal128Type{Precision: 38, Scale: 6}},
	{arrow.FixedWidthTypes.Date32},
	{arrow.FixedWidthTypes.Timestamp_us},
	{&arrow.TimestampType{Unit: arrow.Microsecond}},
	{arrow.BinaryTypes.String},
	{arrow.FixedWidthTypes.Date32, arrow.PrimitiveTypes.Int32},
	{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64},
}

// RandomWorld chooses key, version and payload columns, a form of status, a way
// to delete, a policy and partition columns.
func RandomWorld(r *rand.Rand, o WorldOptions) *World {
	roles := &change.Roles{Mode: change.Guarded, StatusForm: change.StatusWord, Status: "status", Policy: change.Quarantine, InputTypes: map[string]string{}}
	types := map[string]arrow.DataType{}
	columns := func(prefix string, shape []arrow.DataType) (names []string) {
		for i, t := range shape {
			name := fmt.Sprintf("%s%d", prefix, i+1)
			types[name] = t
			names = append(names, name)
		}
		return names
	}
	roles.Keys = columns("key", keyShapes[r.IntN(len(keyShapes))])
	roles.Versions = columns("ver", versionShapes[r.IntN(len(versionShapes))])
	if t := types[roles.Versions[0]]; len(roles.Versions) == 1 && (t.ID() == arrow.INT64 || t.ID() == arrow.INT16) && r.IntN(2) == 0 {
		minimum := "1"
		roles.MinVersion = &minimum
	}
	depth := 2
	if o.FlatPayload {
		depth = 0
	}
	var payload []arrow.DataType
	for range 1 + r.IntN(4) {
		payload = append(payload, RandomType(r, depth))
	}
	roles.Payload = columns("pay", payload)
	if r.IntN(4) == 0 {
		roles.Required = roles.Payload[:1]
	}
	if r.IntN(2) == 0 {
		roles.ChangeID = "change_id"
		roles.InputTypes["change_id"] = "string"
	}
	condition := randomDeletes(r, roles, o)
	w := newWorld(roles, types)
	w.Condition = condition
	if !o.NoPartitions && r.IntN(3) == 0 {
		w.Partition = partition(r, roles, types)
	}
	return w
}

// randomDeletes chooses the status form, the way to delete and the policy.
func randomDeletes(r *rand.Rand, roles *change.Roles, o WorldOptions) func(Row) (bool, bool) {
	form := r.IntN(5)
	if o.Policy == change.Quarantine {
		form = r.IntN(3)
	}
	var condition func(Row) (deletes, null bool)
	switch {
	case form == 4:
		roles.StatusForm, roles.Status, roles.Policy = change.StatusNone, "", change.Reject
	case form == 3:
		roles.StatusForm, roles.Status, roles.Deleted, roles.Policy = change.StatusBoolean, "gone", "gone", change.Reject
	case form == 2 && !o.NoConditions:
		roles.DeletesWhen = kindColumn + " = 'gone'"
		roles.InputTypes[kindColumn] = "string"
		condition = func(row Row) (deletes, null bool) { return row[kindColumn] == "gone", row[kindColumn] == nil }
	default:
		roles.Operation, roles.UpsertWord, roles.DeleteWord = "operation", "upsert", "delete"
		if r.IntN(3) == 0 {
			roles.Operation, roles.UpsertWord, roles.DeleteWord = "op", "U", "D"
			roles.OperationGiven = true
		}
		roles.InputTypes[roles.Operation] = "string"
	}
	if o.Policy != "" {
		roles.Policy = o.Policy
	} else if r.IntN(4) == 0 {
		roles.Policy = change.Reject
	}
	return condition
}

// partition chooses one column to partition by, a key or a payload column.
func partition(r *rand.Rand, roles *change.Roles, types map[string]arrow.DataType) []string {
	candidates := append(append([]string(nil), roles.Keys...), roles.Payload...)
	c := candidates[r.IntN(len(candidates))]
	switch types[c].(type) {
	case arrow.NestedType, *arrow.BinaryType, *arrow.Float32Type, *arrow.Float64Type:
		return nil // nested types cannot, and the others are not worth the files
	}
	return []string{c}
}
