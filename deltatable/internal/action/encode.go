package action

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Encode writes a log entry: one action a line, each line ended by a newline, members
// in the protocol's order, map members sorted, absent members left out, integers
// exact (I7). The same actions give the same bytes. It fails, writing nothing, on an
// Action without exactly one member, on a missing required member and on text that
// is not UTF-8.
func Encode(actions []Action) ([]byte, error) {
	size := 0
	for i := range actions {
		size += 256
		if a := actions[i].Add; a != nil {
			size += len(a.Path) + len(a.Stats)*9/8
		}
	}
	e := &encoder{buf: make([]byte, 0, size)}
	for i := range actions {
		if err := e.action(&actions[i]); err != nil {
			return nil, fmt.Errorf("encode action %d: %w", i+1, err)
		}
		e.buf = append(e.buf, '\n')
	}
	return e.buf, nil
}

// encoder appends JSON. The first error sticks.
type encoder struct {
	buf   []byte
	comma bool // the next member of the open object is not its first
	err   error
}

func (e *encoder) action(a *Action) error {
	n := 0
	each := func(name string, set bool, body func()) {
		if !set {
			return
		}
		n++
		e.comma = false
		e.buf = append(e.buf, '{')
		e.object(name, body)
		e.buf = append(e.buf, '}')
	}
	each("commitInfo", a.CommitInfo != nil, func() { e.commitInfo(a.CommitInfo) })
	each("protocol", a.Protocol != nil, func() { e.protocol(a.Protocol) })
	each("metaData", a.Metadata != nil, func() { e.metadata(a.Metadata) })
	each("txn", a.Txn != nil, func() { e.txn(a.Txn) })
	each("domainMetadata", a.DomainMetadata != nil, func() { e.domain(a.DomainMetadata) })
	each("add", a.Add != nil, func() { e.add(a.Add) })
	each("remove", a.Remove != nil, func() { e.remove(a.Remove) })
	each("cdc", a.CDC != nil, func() { e.cdc(a.CDC) })
	each("checkpointMetadata", a.CheckpointMetadata != nil, func() {
		e.int("version", a.CheckpointMetadata.Version)
		e.strings("tags", a.CheckpointMetadata.Tags)
	})
	each("sidecar", a.Sidecar != nil, func() {
		e.require("path", a.Sidecar.Path)
		e.int("sizeInBytes", a.Sidecar.SizeInBytes)
		e.int("modificationTime", a.Sidecar.ModificationTime)
		e.strings("tags", a.Sidecar.Tags)
	})
	if n != 1 {
		return fmt.Errorf("%d members are set, want exactly one", n)
	}
	return e.err
}

func (e *encoder) add(a *Add) {
	e.require("path", a.Path)
	e.values("partitionValues", a.PartitionValues)
	e.int("size", a.Size)
	e.int("modificationTime", a.ModificationTime)
	e.bool("dataChange", a.DataChange)
	e.optional("stats", a.Stats)
	e.strings("tags", a.Tags)
	e.deletionVector(a.DeletionVector)
	e.optInt("baseRowId", a.BaseRowID)
	e.optInt("defaultRowCommitVersion", a.DefaultRowCommitVersion)
	if a.ClusteringProvider != nil {
		e.str("clusteringProvider", *a.ClusteringProvider)
	}
}

func (e *encoder) remove(r *Remove) {
	e.require("path", r.Path)
	e.optInt("deletionTimestamp", r.DeletionTimestamp)
	e.bool("dataChange", r.DataChange)
	if r.ExtendedFileMetadata {
		e.bool("extendedFileMetadata", true)
	}
	if r.ExtendedFileMetadata || r.PartitionValues != nil {
		e.values("partitionValues", r.PartitionValues)
	}
	e.optInt("size", r.Size)
	e.optional("stats", r.Stats)
	e.strings("tags", r.Tags)
	e.deletionVector(r.DeletionVector)
	e.optInt("baseRowId", r.BaseRowID)
	e.optInt("defaultRowCommitVersion", r.DefaultRowCommitVersion)
}

func (e *encoder) cdc(c *CDC) {
	e.require("path", c.Path)
	e.values("partitionValues", c.PartitionValues)
	e.int("size", c.Size)
	e.bool("dataChange", c.DataChange)
	e.strings("tags", c.Tags)
}

func (e *encoder) deletionVector(d *DeletionVector) {
	if d == nil {
		return
	}
	e.object("deletionVector", func() {
		e.require("storageType", d.StorageType)
		e.require("pathOrInlineDv", d.PathOrInlineDV)
		if d.Offset != nil {
			e.int("offset", int64(*d.Offset))
		}
		e.int("sizeInBytes", int64(d.SizeInBytes))
		e.int("cardinality", d.Cardinality)
	})
}

func (e *encoder) metadata(m *Metadata) {
	e.require("id", m.ID)
	e.optional("name", m.Name)
	e.optional("description", m.Description)
	e.object("format", func() {
		e.require("provider", m.Provider)
		e.must("options", m.FormatOptions)
	})
	e.require("schemaString", m.SchemaString)
	e.list("partitionColumns", m.PartitionColumns)
	e.must("configuration", m.Configuration)
	e.optInt("createdTime", m.CreatedTime)
}

func (e *encoder) protocol(p *Protocol) {
	if p.MinReader <= 0 || p.MinWriter <= 0 {
		e.fail(fmt.Errorf("protocol: versions %d and %d are not both positive", p.MinReader, p.MinWriter))
	}
	e.int("minReaderVersion", int64(p.MinReader))
	e.int("minWriterVersion", int64(p.MinWriter))
	if p.ReaderFeatures != nil {
		e.list("readerFeatures", p.ReaderFeatures)
	}
	if p.WriterFeatures != nil {
		e.list("writerFeatures", p.WriterFeatures)
	}
}

func (e *encoder) txn(t *Txn) {
	e.str("appId", t.AppID)
	e.int("version", t.Version)
	e.optInt("lastUpdated", t.LastUpdated)
}

func (e *encoder) domain(d *DomainMetadata) {
	e.require("domain", d.Domain)
	e.str("configuration", d.Configuration)
	e.bool("removed", d.Removed)
}

func (e *encoder) commitInfo(c *CommitInfo) {
	if c.Timestamp != 0 {
		e.int("timestamp", c.Timestamp)
	}
	e.optInt("inCommitTimestamp", c.InCommitTimestamp)
	e.optional("operation", c.Operation)
	e.strings("operationParameters", c.OperationParameters)
	e.optInt("readVersion", c.ReadVersion)
	e.optional("isolationLevel", c.IsolationLevel)
	if c.IsBlindAppend != nil {
		e.bool("isBlindAppend", *c.IsBlindAppend)
	}
	e.strings("operationMetrics", c.OperationMetrics)
	e.optional("userMetadata", c.UserMetadata)
	e.strings("tags", c.Tags)
	e.optional("engineInfo", c.EngineInfo)
	e.optional("txnId", c.TxnID)
	e.extra(c.Extra)
}

// extra splices the members of a JSON object in.
func (e *encoder) extra(v jsontext.Value) {
	if len(v) == 0 {
		return
	}
	v = v.Clone()
	if err := v.Compact(); err != nil || v.Kind() != '{' {
		e.fail(errors.Join(errors.New("commitInfo: Extra is not a JSON object"), err))
		return
	}
	if len(v) > 2 {
		e.separate()
		e.buf = append(e.buf, v[1:len(v)-1]...)
	}
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) separate() {
	if e.comma {
		e.buf = append(e.buf, ',')
	}
	e.comma = true
}

func (e *encoder) name(name string) {
	e.separate()
	e.quote(name)
	e.buf = append(e.buf, ':')
}

func (e *encoder) quote(s string) {
	b, err := jsontext.AppendQuote(e.buf, s)
	if err != nil {
		e.fail(fmt.Errorf("text %.40q: %w", s, err))
		return
	}
	e.buf = b
}

func (e *encoder) object(name string, body func()) {
	e.name(name)
	e.buf = append(e.buf, '{')
	e.comma = false
	body()
	e.buf = append(e.buf, '}')
	e.comma = true
}

func (e *encoder) str(name, v string) {
	e.name(name)
	e.quote(v)
}

// require is str for a member that must not be empty.
func (e *encoder) require(name, v string) {
	if v == "" {
		e.fail(fmt.Errorf("member %s is empty", name))
	}
	e.str(name, v)
}

// optional is str for a member that is absent when empty.
func (e *encoder) optional(name, v string) {
	if v != "" {
		e.str(name, v)
	}
}

func (e *encoder) int(name string, v int64) {
	e.name(name)
	e.buf = strconv.AppendInt(e.buf, v, 10)
}

func (e *encoder) optInt(name string, v *int64) {
	if v != nil {
		e.int(name, *v)
	}
}

func (e *encoder) bool(name string, v bool) {
	e.name(name)
	e.buf = strconv.AppendBool(e.buf, v)
}

func (e *encoder) list(name string, v []string) {
	e.name(name)
	e.buf = append(e.buf, '[')
	for i, s := range v {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.quote(s)
	}
	e.buf = append(e.buf, ']')
}

// strings writes a map that is absent when nil.
func (e *encoder) strings(name string, m map[string]string) {
	if m != nil {
		e.must(name, m)
	}
}

// must writes a map that is always present.
func (e *encoder) must(name string, m map[string]string) {
	e.object(name, func() {
		for _, k := range sortedKeys(m) {
			e.str(k, m[k])
		}
	})
}

// values writes partition values; nil is NULL.
func (e *encoder) values(name string, m map[string]*string) {
	e.object(name, func() {
		for _, k := range sortedKeys(m) {
			if v := m[k]; v != nil {
				e.str(k, *v)
			} else {
				e.name(k)
				e.buf = append(e.buf, "null"...)
			}
		}
	})
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
