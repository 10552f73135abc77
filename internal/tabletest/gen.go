package tabletest

import (
	"fmt"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/deltafold/deltafold/merge/change"
)

// GenOptions say what batches a Gen makes; zero values are the defaults.
type GenOptions struct {
	World *World // default: Default()
	// Keys is the number of different keys; default 8. Few keys collide often, many
	// rarely.
	Keys int
	// Versions is the number of different versions that a batch draws from;
	// default 6. The range moves up slowly, so that some are older than the state.
	Versions int
	// MinRows and MaxRows bound a batch's rows; default 1 and 20.
	MinRows, MaxRows int
	// Of 1000 rows, how many are not valid, contradict the usual content of their
	// key and version, repeat a row of this batch, repeat one of an earlier batch.
	// Negative: none. Defaults: 50, 100, 100, 100.
	Invalid, Conflicts, Repeats, Replays int
	// DeletePercent of the valid rows delete; default 20, negative: none.
	DeletePercent int
}

// Gen makes batches. The same seed and options make the same batches. The
// content of a key at a version is a function of both, so that rows of one key
// and version are equal unless they are made to conflict. It is not safe for
// concurrent use.
type Gen struct {
	o       GenOptions
	seed    uint64
	r       *rand.Rand
	batches int
	history []Row
}

// NewGen makes a generator.
func NewGen(seed uint64, o GenOptions) *Gen {
	if o.World == nil {
		o.World = Default()
	}
	for _, d := range []struct {
		v     *int
		value int
	}{{&o.Keys, 8}, {&o.Versions, 6}, {&o.MinRows, 1}, {&o.MaxRows, 20}, {&o.Invalid, 50}, {&o.Conflicts, 100}, {&o.Repeats, 100}, {&o.Replays, 100}, {&o.DeletePercent, 20}} {
		if *d.v == 0 {
			*d.v = d.value
		}
	}
	o.MaxRows = max(o.MaxRows, o.MinRows)
	return &Gen{o: o, seed: seed, r: NewRand(seed)}
}

// Batch makes the next batch.
func (g *Gen) Batch() Batch {
	g.batches++
	n := g.o.MinRows + g.r.IntN(g.o.MaxRows-g.o.MinRows+1)
	var b Batch
	for i := range n {
		row := g.next(b)
		if c := g.o.World.Roles.ChangeID; c != "" && row[c] == nil {
			row[c] = fmt.Sprintf("c%d-%d", g.batches, i)
		}
		if g.r.IntN(1000) < g.o.Invalid {
			g.spoil(row)
		}
		b.Rows = append(b.Rows, row)
	}
	g.remember(b)
	return b.Permute(g.r)
}

// remember keeps some rows to replay; the number is bounded.
func (g *Gen) remember(b Batch) {
	for _, row := range b.Rows {
		if len(g.history) < 5000 {
			g.history = append(g.history, row)
		} else if g.r.IntN(4) == 0 {
			g.history[g.r.IntN(len(g.history))] = row
		}
	}
}

func (g *Gen) next(b Batch) Row {
	if len(b.Rows) > 0 && g.r.IntN(1000) < g.o.Repeats {
		return copyRow(b.Rows[g.r.IntN(len(b.Rows))])
	}
	if len(g.history) > 0 && g.r.IntN(1000) < g.o.Replays {
		return copyRow(g.history[g.r.IntN(len(g.history))])
	}
	// Two versions up with each batch, from 1 on.
	version := 1 + 2*(g.batches-1) + g.r.IntN(g.o.Versions) - g.r.IntN(g.o.Versions)
	variant := 0
	if g.r.IntN(1000) < g.o.Conflicts {
		variant = 1 + g.r.IntN(2)
	}
	return g.Row(g.r.IntN(g.o.Keys), max(version, 1), variant)
}

func copyRow(row Row) Row {
	c := make(Row, len(row))
	for k, v := range row {
		c[k] = v
	}
	return c
}

// Row is the valid row of key number key at version number version, both from
// 1 on for versions and from 0 on for keys; other variants have other content.
// It has no change id.
func (g *Gen) Row(key, version, variant int) Row {
	w, roles := g.o.World, g.o.World.Roles
	row := Row{}
	for i, c := range roles.Keys {
		row[c] = keyValue(typeOf(w.Input, c), key, i, len(roles.Keys))
	}
	for i, c := range roles.Versions {
		row[c] = versionValue(typeOf(w.Input, c), version, i, len(roles.Versions))
	}
	r := NewRand(g.seed ^ uint64(key)<<40 ^ uint64(version)<<8 ^ uint64(variant))
	deletes := roles.StatusForm != change.StatusNone && r.IntN(100) < g.o.DeletePercent
	word := map[bool]Value{false: roles.UpsertWord, true: roles.DeleteWord}
	switch {
	case roles.Deleted != "":
		row[roles.Deleted] = deletes
	case roles.DeletesWhen != "":
		row[kindColumn] = map[bool]Value{false: "kept", true: "gone"}[deletes]
	case roles.Operation != "":
		row[roles.Operation] = word[deletes]
	}
	if deletes && roles.Operation != "" {
		return row
	}
	some := false
	for i, c := range roles.Payload {
		if !deletes || r.IntN(2) == 0 {
			row[c] = g.payload(r, c, i == 0 || i == len(roles.Payload)-1 && !some)
		}
		some = some || row[c] != nil
	}
	return row
}

// payload is a random value of payload column c; need: not NULL, not even in
// a partition column's stored form.
func (g *Gen) payload(r *rand.Rand, c string, need bool) Value {
	i := g.o.World.Input.FieldIndices(c)[0]
	f := g.o.World.Input.Field(i)
	for {
		rec := RandomRecord(r, arrow.NewSchema([]arrow.Field{f}, nil), 1)
		v := At(rec.Column(0), 0)
		for _, p := range g.o.World.Partition {
			if v != nil && p == c {
				v = fewValues(v)
			}
		}
		if v != nil || !need {
			return v
		}
	}
}

// fewValues keeps the number of partitions small.
func fewValues(v Value) Value {
	switch x := v.(type) {
	case int64:
		return x % 3
	case string:
		if x == "" {
			return nil
		}
		return []Value{"a/b=c", "100%", "größe"}[len(x)%3]
	case Decimal:
		return Decimal(decimal128.FromI64(int64(decimal128.Num(x).LowBits()%3) - 1))
	case Date:
		return x % 3
	case Time:
		return x % 3 * 1_000_000
	}
	return v
}

func typeOf(sch *arrow.Schema, c string) arrow.DataType {
	return sch.Field(sch.FieldIndices(c)[0]).Type
}

// keyValue is column i of n of key number k: different k differ in some column.
// Of several columns, all but the last take few values.
func keyValue(t arrow.DataType, k, i, n int) Value {
	if n > 1 {
		if i == 0 {
			k %= 2
		} else if i < n-1 {
			k = k / 2 % 3
		} else {
			k /= map[bool]int{true: 2, false: 6}[n == 2]
		}
	}
	switch t := t.(type) {
	case *arrow.BooleanType:
		return k%2 == 0
	case *arrow.Int8Type:
		return int64(k%256 - 128)
	case *arrow.Int16Type, *arrow.Int32Type:
		return int64(k - 2)
	case *arrow.Int64Type:
		return int64(k-2) + int64(k%2)<<53
	case *arrow.StringType:
		// Keys that trimming, case, escaping or gluing columns together would mix up.
		odd := []string{"a", "ab", "b", "bc", "c", " a", "a ", "A", "ä", "a|b", `"`, "a,b", "日本", "%41", "a/b", "1"}
		if k < len(odd) {
			return odd[k]
		}
		return fmt.Sprintf("account-%d", k)
	case *arrow.BinaryType:
		if k == 0 {
			return Bytes("")
		}
		return Bytes(fmt.Sprintf("%c\x00%d", k%256, k/256))
	case *arrow.Decimal128Type:
		return Decimal(decimal128.FromI64(int64(k-2) * 5))
	case *arrow.Date32Type:
		return Date(19000 + (k-2)*3)
	case *arrow.TimestampType:
		return Time(int64(k-2)*1_000_001 + int64(k%3)*1_000_000_000_000_000)
	default:
		panic(fmt.Sprintf("no keys of type %s here", t))
	}
}

// versionValue is column i of n of version number v; larger v are later.
func versionValue(t arrow.DataType, v, i, n int) Value {
	if n > 1 {
		v = []int{v / 3, v % 3}[i]
	}
	switch t := t.(type) {
	case *arrow.Int16Type, *arrow.Int32Type:
		return int64(v)
	case *arrow.Int64Type:
		if n == 1 && v > 3 {
			return int64(v) + 1<<53 // neighbours that a float64 cannot tell apart
		}
		return int64(v)
	case *arrow.StringType:
		return fmt.Sprintf("v%05d", v)
	case *arrow.Decimal128Type:
		return Decimal(decimal128.FromI64(int64(v)).Mul(decimal128.GetScaleMultiplier(20)))
	case *arrow.Date32Type:
		return Date(v - 3)
	case *arrow.TimestampType:
		return Time(v - 3)
	default:
		panic(fmt.Sprintf("no versions of type %s here", t))
	}
}

// spoil makes a row not valid, in one of the ways that its world has.
func (g *Gen) spoil(row Row) {
	roles := g.o.World.Roles
	switch g.r.IntN(6) {
	case 0:
		if roles.ChangeID != "" {
			row[roles.ChangeID] = []Value{nil, "", "  "}[g.r.IntN(3)]
			return
		}
	case 1:
		c := roles.Versions[g.r.IntN(len(roles.Versions))]
		row[c] = nil
		if roles.MinVersion != nil && g.r.IntN(2) == 0 {
			row[c] = int64(-g.r.IntN(2))
		}
		return
	case 2:
		switch {
		case roles.Deleted != "":
			row[roles.Deleted] = nil
		case roles.DeletesWhen != "":
			row[kindColumn] = nil
		case roles.Operation != "":
			row[roles.Operation] = []Value{nil, "", "Upsert", "delete "}[g.r.IntN(4)]
		}
		return
	case 3:
		for _, c := range roles.Payload {
			row[c] = nil // an upsert without payload, or a delete that was one already
		}
		return
	case 4:
		if roles.Operation != "" {
			row[roles.Operation] = roles.DeleteWord // with a payload, if it was an upsert
			return
		}
	}
	c := roles.Keys[g.r.IntN(len(roles.Keys))]
	row[c] = nil
	if _, ok := typeOf(g.o.World.Input, c).(*arrow.StringType); ok && g.r.IntN(2) == 0 {
		row[c] = []Value{"", "   "}[g.r.IntN(2)]
	}
}
