package action

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// The oracle reads the same text by struct tags instead of by hand.
type oracleLine struct {
	Add      *oracleFile     `json:"add"`
	Remove   *oracleFile     `json:"remove"`
	CDC      *oracleFile     `json:"cdc"`
	Txn      *oracleTxn      `json:"txn"`
	Protocol *oracleProtocol `json:"protocol"`
	Domain   *oracleDomain   `json:"domainMetadata"`
	Metadata *oracleMetadata `json:"metaData"`
}

type oracleFile struct {
	Path      string             `json:"path"`
	Values    map[string]*string `json:"partitionValues"`
	Size      *int64             `json:"size"`
	Modified  int64              `json:"modificationTime"`
	Deleted   *int64             `json:"deletionTimestamp"`
	Change    *bool              `json:"dataChange"`
	Stats     jsontext.Value     `json:"stats"`
	Vector    *oracleVector      `json:"deletionVector"`
	BaseRowID *int64             `json:"baseRowId"`
}

type oracleVector struct {
	StorageType string `json:"storageType"`
	Path        string `json:"pathOrInlineDv"`
	Offset      *int32 `json:"offset"`
	Size        int32  `json:"sizeInBytes"`
	Cardinality int64  `json:"cardinality"`
}

type oracleTxn struct {
	AppID       string `json:"appId"`
	Version     int64  `json:"version"`
	LastUpdated *int64 `json:"lastUpdated"`
}

type oracleProtocol struct {
	MinReader int      `json:"minReaderVersion"`
	MinWriter int      `json:"minWriterVersion"`
	Reader    []string `json:"readerFeatures"`
	Writer    []string `json:"writerFeatures"`
}

type oracleDomain struct {
	Domain        string `json:"domain"`
	Configuration string `json:"configuration"`
	Removed       bool   `json:"removed"`
}

type oracleMetadata struct {
	ID            string             `json:"id"`
	SchemaString  string             `json:"schemaString"`
	Columns       []string           `json:"partitionColumns"`
	Configuration map[string]*string `json:"configuration"`
	CreatedTime   *int64             `json:"createdTime"`
}

func (o *oracleVector) vector() *DeletionVector {
	if o == nil {
		return nil
	}
	return &DeletionVector{o.StorageType, o.Path, o.Offset, o.Size, o.Cardinality}
}

func (o *oracleFile) stats() string {
	switch o.Stats.Kind() {
	case '"':
		b, err := jsontext.AppendUnquote(nil, o.Stats)
		if err != nil {
			return "undecodable"
		}
		return string(b)
	case '{':
		return string(o.Stats)
	}
	return ""
}

func orTrue(b *bool) bool { return b == nil || *b }

// actions gives what Decode must give for the line, in the order of these fields.
func (o *oracleLine) actions() []Action {
	var out []Action
	if f := o.Add; f != nil && f.Size != nil {
		values := f.Values
		if values == nil {
			values = noValues
		}
		out = append(out, Action{Add: &Add{
			Path: f.Path, PartitionValues: values, Size: *f.Size, ModificationTime: f.Modified,
			DataChange: orTrue(f.Change), Stats: f.stats(), DeletionVector: f.Vector.vector(), BaseRowID: f.BaseRowID,
		}})
	}
	if f := o.Remove; f != nil {
		out = append(out, Action{Remove: &Remove{
			Path: f.Path, PartitionValues: f.Values, Size: f.Size, DeletionTimestamp: f.Deleted,
			DataChange: orTrue(f.Change), Stats: f.stats(), DeletionVector: f.Vector.vector(), BaseRowID: f.BaseRowID,
		}})
	}
	if t := o.Txn; t != nil {
		out = append(out, Action{Txn: &Txn{t.AppID, t.Version, t.LastUpdated}})
	}
	if p := o.Protocol; p != nil {
		out = append(out, Action{Protocol: &Protocol{p.MinReader, p.MinWriter, p.Reader, p.Writer}})
	}
	if d := o.Domain; d != nil {
		out = append(out, Action{DomainMetadata: &DomainMetadata{d.Domain, d.Configuration, d.Removed}})
	}
	if m := o.Metadata; m != nil {
		var configuration map[string]string
		if m.Configuration != nil {
			configuration = map[string]string{}
			for k, v := range m.Configuration {
				if v != nil {
					configuration[k] = *v
				}
			}
		}
		out = append(out, Action{Metadata: &Metadata{ID: m.ID, SchemaString: m.SchemaString, PartitionColumns: m.Columns, Configuration: configuration, CreatedTime: m.CreatedTime}})
	}
	return out
}

// comparable leaves out what the oracle does not read.
func comparable(actions []Action) map[string][]Action {
	out := map[string][]Action{}
	for _, a := range actions {
		switch {
		case a.Add != nil:
			c := *a.Add
			c.Tags, c.DefaultRowCommitVersion, c.ClusteringProvider = nil, nil, nil
			out["add"] = append(out["add"], Action{Add: &c})
		case a.Remove != nil:
			c := *a.Remove
			c.Tags, c.DefaultRowCommitVersion, c.ExtendedFileMetadata = nil, nil, false
			out["remove"] = append(out["remove"], Action{Remove: &c})
		case a.Metadata != nil:
			c := *a.Metadata
			c.Name, c.Description, c.Provider, c.FormatOptions = "", "", "", nil
			out["metaData"] = append(out["metaData"], Action{Metadata: &c})
		case a.Txn != nil:
			out["txn"] = append(out["txn"], a)
		case a.Protocol != nil:
			out["protocol"] = append(out["protocol"], a)
		case a.DomainMetadata != nil:
			out["domainMetadata"] = append(out["domainMetadata"], a)
		}
	}
	return out
}

// checkOracle compares what was decoded with the oracle's reading.
func checkOracle(t *testing.T, data []byte, got []Action) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	var want []Action
	for {
		var line oracleLine
		err := json.UnmarshalDecode(dec, &line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("decoded, but the oracle says %v: %q", err, data)
		}
		want = append(want, line.actions()...)
	}
	if d := cmp.Diff(comparable(want), comparable(got)); d != "" {
		t.Fatalf("differs from the oracle (-oracle +decoded):\n%s\n%q", d, data)
	}
}

// checkStable writes, reads and writes again.
func checkStable(t *testing.T, actions []Action) {
	t.Helper()
	for _, a := range actions { // what may be read but not written
		if m := a.Metadata; m != nil && (m.ID == "" || m.Provider == "" || m.SchemaString == "") {
			return
		}
	}
	first, err := Encode(actions)
	if err != nil {
		t.Fatalf("encode what was decoded: %v", err)
	}
	again, err := Decode(first)
	if err != nil {
		t.Fatalf("decode what was encoded: %v in %s", err, first)
	}
	second, err := Encode(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Fatalf("encoding is not stable:\n%s\n%s", first, second)
	}
	if n := bytes.Count(first, []byte{'\n'}); n != len(actions) {
		t.Fatalf("%d lines for %d actions", n, len(actions))
	}
}

// FuzzDecode: Decode never panics, agrees with the oracle on what it accepts, and
// what it accepts is written stably.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"add":{"path":"a","partitionValues":{"p":null},"size":1,"modificationTime":2,"dataChange":false,"stats":"{\"numRecords\":1}","tags":{"a":"b"}}}`))
	f.Add([]byte("{\"remove\":{\"path\":\"a\",\"deletionVector\":{\"storageType\":\"u\",\"pathOrInlineDv\":\"x\",\"offset\":1,\"sizeInBytes\":2,\"cardinality\":3}}}\r\n\n"))
	f.Add([]byte(`{"commitInfo":{"timestamp":"x","operationParameters":{"a":[1, 2]},"extra":{"a": 1}},"txn":{"appId":"x","version":1}}`))
	f.Add([]byte(`{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{}","partitionColumns":[],"configuration":{"a":null}}}{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[]}}`))
	f.Add([]byte(`{"domainMetadata":{"domain":"d","configuration":"","removed":true}}{"cdc":{"path":"c"}}{"sidecar":{"path":"s"}}{"checkpointMetadata":{}}`))
	for i, data := range foreignEntries(f) {
		if i%17 == 0 && len(data) < 8<<10 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := slices.Clone(data)
		got, err := Decode(data)
		if !bytes.Equal(before, data) {
			t.Fatal("the text was changed")
		}
		if err != nil {
			return
		}
		checkOracle(t, data, got)
		checkStable(t, got)
	})
}

func FuzzCanonicalPath(f *testing.F) {
	f.Add("file:///tmp/a%20b", "file:/tmp/a b/x%20y.parquet")
	f.Add("/t", "/t/x")
	f.Add("/t", "/t//t/0")
	f.Add("s3://b/t", "s3://b/t//x")
	f.Fuzz(func(t *testing.T, root, path string) {
		once := CanonicalPath(root, path)
		if !isAbsolute(once) {
			return // relative now: it is its own form
		}
		if twice := CanonicalPath(root, once); twice != once {
			t.Fatalf("%q below %q becomes %q, then %q", path, root, once, twice)
		}
	})
}
