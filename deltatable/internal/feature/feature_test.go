package feature

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable/internal/action"
)

func schemaWith(key, value string) string {
	return `{"type":"struct","fields":[{"name":"s","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{"` +
		key + `":` + value + `}}]},"containsNull":true},"nullable":true,"metadata":{}}]}`
}

func table(features []string, properties map[string]string, schema string) (*action.Protocol, *action.Metadata) {
	p := &action.Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: features}
	for _, f := range features {
		if k, ok := find(f); !ok || k.reader {
			p.MinReader, p.ReaderFeatures = 3, append(p.ReaderFeatures, f)
		}
	}
	return p, &action.Metadata{ID: "m", Provider: "parquet", SchemaString: schema, Configuration: properties}
}

func refused(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var u *UnsupportedError
	if !errors.As(err, &u) {
		t.Fatalf("error is %v, want an *UnsupportedError", err)
	}
	return u.Feature
}

func TestChecksRefuseByName(t *testing.T) {
	type answer struct{ Read, Append, Write string }
	plain := schemaWith("comment", `"delta.invariants"`)
	props := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	all := func(s string) answer { return answer{s, s, s} }
	writes := func(s string) answer { return answer{"", s, s} }
	for name, c := range map[string]struct {
		features   []string
		properties map[string]string
		schema     string
		want       answer
	}{
		"nothing":                      {nil, nil, plain, answer{}},
		"handled ones":                 {[]string{AppendOnly, Invariants, CheckConstraints, ChangeDataFeed, GeneratedColumns, IdentityColumns, AllowColumnDefaults, DomainMetadata, InCommitTimestamp, TimestampNtz, "TIMESTAMPNTZ", "timestampWithoutTimezone", VacuumProtocolCheck, ColumnMapping, DeletionVectors, TypeWidening}, nil, plain, answer{}},
		"unknown ones, all named":      {[]string{"fancy", TimestampNtz, "geospatial"}, nil, plain, all("fancy, geospatial")},
		"writer features we lack":      {[]string{"rowTracking", "clustering", "icebergCompatV1", "materializePartitionColumns", "checkpointProtection"}, nil, plain, all("rowTracking, clustering, icebergCompatV1, materializePartitionColumns, checkpointProtection")},
		"catalog":                      {[]string{"catalogOwned-preview", InCommitTimestamp}, nil, plain, all("catalogOwned-preview")},
		"V2 checkpoints":               {[]string{V2Checkpoint}, nil, plain, writes(V2Checkpoint)},
		"mapped columns":               {[]string{ColumnMapping}, props("delta.columnMapping.mode", "Name"), plain, all(ColumnMapping)},
		"mapping mode none":            {[]string{ColumnMapping}, props("delta.columnMapping.mode", "none"), plain, answer{}},
		"mapping without the feature":  {nil, props("delta.columnMapping.mode", "name"), plain, answer{}},
		"deletion vectors wanted":      {[]string{DeletionVectors}, props("delta.enableDeletionVectors", "TRUE"), plain, writes(DeletionVectors)},
		"property without feature":     {nil, props("delta.enableDeletionVectors", "true", "delta.enableChangeDataFeed", "true"), plain, answer{}},
		"change data feed":             {[]string{ChangeDataFeed}, props("delta.enableChangeDataFeed", "true"), plain, answer{"", "", ChangeDataFeed}},
		"widened types":                {[]string{"typeWidening-preview"}, nil, schemaWith("delta.typeChanges", "[]"), all("typeWidening-preview")},
		"widened types without a name": {nil, nil, schemaWith("delta.typeChanges", "[]"), all(TypeWidening)},
		"invariant":                    {nil, nil, schemaWith("delta.invariants", `"{}"`), writes(Invariants)},
		"generated":                    {nil, nil, schemaWith("delta.generationExpression", `"x"`), writes(GeneratedColumns)},
		"identity":                     {nil, nil, schemaWith("delta.identity.start", "1"), writes(IdentityColumns)},
		"default":                      {nil, nil, schemaWith("CURRENT_DEFAULT", `"1"`), writes(AllowColumnDefaults)},
		"constraint":                   {nil, props("delta.constraints.c", "x > 0"), plain, writes(CheckConstraints)},
		"damaged schema":               {nil, nil, `{"type":`, writes("schema")},
	} {
		t.Run(name, func(t *testing.T) {
			p, md := table(c.features, c.properties, c.schema)
			if name == "writer features we lack" {
				p.MinReader, p.ReaderFeatures = 1, nil
				c.want.Read = ""
			}
			got := answer{refused(t, CheckRead(p, md)), refused(t, CheckAppend(p, md)), refused(t, CheckWrite(p, md))}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("refusals differ (-want +got):\n%s", d)
			}
		})
	}
}

func TestChecksOfLegacyVersions(t *testing.T) {
	md := &action.Metadata{Provider: "parquet", Configuration: map[string]string{"delta.columnMapping.mode": "id", "delta.enableChangeDataFeed": "true", "delta.appendOnly": "true"}}
	for _, c := range []struct {
		reader, writer int
		read, write    string
		appendOnly     bool
	}{
		{1, 1, "", "", false},
		{1, 2, "", "", true},
		{1, 3, "", "", true},
		{1, 4, "", ChangeDataFeed, true},
		{2, 5, ColumnMapping, "columnMapping, changeDataFeed", true},
		{2, 6, ColumnMapping, "columnMapping, changeDataFeed", true},
		{2, 7, ColumnMapping, ColumnMapping, false},
		{3, 7, "", "", false},
		{3, 6, "minReaderVersion 3 with minWriterVersion 6", "minReaderVersion 3 with minWriterVersion 6", false},
		{4, 7, "minReaderVersion 4", "minReaderVersion 4", false},
		{1, 8, "", "minWriterVersion 8", false},
	} {
		p := &action.Protocol{MinReader: c.reader, MinWriter: c.writer}
		if got := refused(t, CheckRead(p, md)); got != c.read {
			t.Errorf("(%d,%d): read refuses %q, want %q", c.reader, c.writer, got, c.read)
		}
		if got := refused(t, CheckWrite(p, md)); got != c.write {
			t.Errorf("(%d,%d): write refuses %q, want %q", c.reader, c.writer, got, c.write)
		}
		if got := IsAppendOnly(p, md); got != c.appendOnly {
			t.Errorf("(%d,%d): append-only is %t", c.reader, c.writer, got)
		}
	}
}

func TestForNewTableIsTheSmallest(t *testing.T) {
	for _, c := range []struct {
		features []string
		want     action.Protocol
	}{
		{nil, action.Protocol{MinReader: 1, MinWriter: 2}},
		{[]string{AppendOnly}, action.Protocol{MinReader: 1, MinWriter: 2}},
		{[]string{InCommitTimestamp}, action.Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: []string{AppendOnly, InCommitTimestamp, Invariants}}},
		{[]string{TimestampNtz, "TimestampNTZ"}, action.Protocol{MinReader: 3, MinWriter: 7, ReaderFeatures: []string{TimestampNtz}, WriterFeatures: []string{AppendOnly, Invariants, TimestampNtz}}},
	} {
		got := ForNewTable(c.features...)
		if d := cmp.Diff(&c.want, got); d != "" {
			t.Errorf("protocol for %v differs (-want +got):\n%s", c.features, d)
		}
	}
}

func TestWithFeaturesKeepsWhatWasImplied(t *testing.T) {
	got := WithFeatures(&action.Protocol{MinReader: 2, MinWriter: 5}, TimestampNtz)
	want := &action.Protocol{
		MinReader: 3, MinWriter: 7, ReaderFeatures: []string{ColumnMapping, TimestampNtz},
		WriterFeatures: []string{AppendOnly, ChangeDataFeed, CheckConstraints, ColumnMapping, GeneratedColumns, Invariants, TimestampNtz},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("protocol differs (-want +got):\n%s", d)
	}
}

func TestParseInterval(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"interval 1 week":                        7 * 24 * time.Hour,
		"INTERVAL 30 Days":                       30 * 24 * time.Hour,
		"  2 hours  5 minutes 1 second ":         2*time.Hour + 5*time.Minute + time.Second,
		"interval 3 milliseconds 4 microseconds": 3*time.Millisecond + 4*time.Microsecond,
		"interval 0 seconds":                     0,
		"interval 9000000 days":                  math.MaxInt64,
	} {
		if got, err := ParseInterval(text); err != nil || got != want {
			t.Errorf("ParseInterval(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "interval", "interval week", "interval 1 month", "interval 1 year", "interval 1.5 days", "interval -1 days", "1 fortnight", "interval 1 day 2"} {
		if got, err := ParseInterval(text); err == nil {
			t.Errorf("ParseInterval(%q) = %v, want an error", text, got)
		}
	}
}

func TestProperties(t *testing.T) {
	md := &action.Metadata{Configuration: map[string]string{
		"delta.checkpointInterval": "100", "DELTA.deletedFileRetentionDuration": "interval 2 days",
		"delta.checkpoint.writeStatsAsJson": "False",
	}}
	if n, err := CheckpointInterval(md); n != 100 || err != nil {
		t.Errorf("checkpoint interval %d, %v", n, err)
	}
	if d, err := DeletedFileRetention(md); d != 48*time.Hour || err != nil {
		t.Errorf("retention %v, %v", d, err)
	}
	if _, set, err := TxnRetention(md); set || err != nil {
		t.Errorf("txn retention set: %t, %v", set, err)
	}
	if WriteStatsAsJSON(md) || !WriteStatsAsStruct(md) {
		t.Error("forms of statistics")
	}
	if _, err := CheckpointInterval(&action.Metadata{Configuration: map[string]string{"delta.checkpointInterval": "0"}}); err == nil {
		t.Error("interval 0 is accepted")
	}
}
