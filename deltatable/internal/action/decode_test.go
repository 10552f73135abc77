package action

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

func TestDecodeTolerates(t *testing.T) {
	add := Action{Add: &Add{Path: "a", PartitionValues: noValues, Size: 1, DataChange: true}}
	for _, c := range []struct {
		name, text string
		want       []Action
	}{
		{"nothing", "", nil},
		{"blank lines, CRLF, no final newline", "\r\n\n{\"add\":{\"path\":\"a\",\"size\":1}}\r\n \n{\"add\":{\"path\":\"a\",\"size\":1}}", []Action{add, add}},
		{"explicit nulls", `{"add":{"path":"a","partitionValues":null,"size":1,"modificationTime":null,"dataChange":null,"stats":null,"tags":null,"deletionVector":null,"baseRowId":null,"defaultRowCommitVersion":null,"clusteringProvider":null},"remove":null,"cdc":null,"metaData":null}`, []Action{add}},
		{"two top-level members, one unknown", `{"add":{"path":"a","size":1},"some_new_action":{"a":[1,{}]}}`, []Action{add}},
		{"two known ones", `{"add":{"path":"a","size":1},"txn":{"appId":"x","version":-3}}`, []Action{add, {Txn: &Txn{AppID: "x", Version: -3}}}},
		{"unknown action alone and empty object", "{\"x\":null}\n{}\n{\"y\":{\"path\":1}}", nil},
		{"unknown members", `{"add":{"new":{"path":"b"},"path":"a","size":1,"other":[[]]}}`, []Action{add}},
		{"pretty-printed over lines", "{\n  \"add\" : {\n\t\"size\" : 1 ,\n \"path\":\"a\"\n}\n}\n{\n}", []Action{add}},
		{"names and texts with escapes", `{"\u0061dd":{"p\u0061th":"\ud83d\ude00\n\"\\","size":1}}`, []Action{{Add: &Add{Path: "😀\n\"\\", PartitionValues: noValues, Size: 1, DataChange: true}}}},
		{"exact integers", `{"add":{"path":"a","size":9223372036854775807,"modificationTime":-9223372036854775808,"baseRowId":9007199254740993}}`, []Action{{Add: &Add{Path: "a", PartitionValues: noValues, Size: 1<<63 - 1, ModificationTime: -1 << 63, DataChange: true, BaseRowID: ptr(int64(1<<53 + 1))}}}},
		{"statistics as an object", `{"add":{"path":"a","size":1,"stats":{"numRecords": 2}}}`, []Action{{Add: &Add{Path: "a", PartitionValues: noValues, Size: 1, DataChange: true, Stats: `{"numRecords": 2}`}}}},
		{"short remove", `{"remove":{"path":"a"}}`, []Action{{Remove: &Remove{Path: "a", DataChange: true}}}},
		{"partition values", `{"add":{"path":"a","partitionValues":{"x":"","y":null,"z":"1"},"size":1}}`, []Action{{Add: &Add{Path: "a", PartitionValues: map[string]*string{"x": ptr(""), "y": nil, "z": ptr("1")}, Size: 1, DataChange: true}}}},
		{"deletion vectors: no offset is not offset 0", `{"add":{"path":"a","size":1,"deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":0,"sizeInBytes":4,"cardinality":6}}}` + "\n" +
			`{"remove":{"path":"a","deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":null,"sizeInBytes":4,"cardinality":6}}}`, []Action{
			{Add: &Add{Path: "a", PartitionValues: noValues, Size: 1, DataChange: true, DeletionVector: &DeletionVector{"u", "x", ptr(int32(0)), 4, 6}}},
			{Remove: &Remove{Path: "a", DataChange: true, DeletionVector: &DeletionVector{"u", "x", nil, 4, 6}}},
		}},
		{"protocol: absent is not empty", `{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":[]}}`, []Action{{Protocol: &Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: []string{}}}}},
		{"metadata", `{"metaData":{"id":"i","name":null,"format":{"provider":"parquet","options":{"a":"b"}},"schemaString":"{}","partitionColumns":["p"],"configuration":{"k":"v","n":null},"createdTime":5}}`, []Action{{Metadata: &Metadata{
			ID: "i", Provider: "parquet", FormatOptions: map[string]string{"a": "b"}, SchemaString: "{}", PartitionColumns: []string{"p"}, Configuration: map[string]string{"k": "v"}, CreatedTime: ptr(int64(5)),
		}}}},
		{"commitInfo with values of all kinds", `{"commitInfo":{"timestamp":1,"inCommitTimestamp":2,"operation":"MERGE","operationParameters":{"a":"[\"x\"]","b":false,"c":{"d": 1.50},"e":null},"readVersion":0,"isBlindAppend":false,"operationMetrics":{"n":12},"clusterId":"c","tags":{"t":"u"},"txnId":5,"job":{"id": "1"},"nothing":null}}`, []Action{{CommitInfo: &CommitInfo{
			Timestamp: 1, InCommitTimestamp: ptr(int64(2)), Operation: "MERGE", OperationParameters: map[string]string{"a": `["x"]`, "b": "false", "c": `{"d":1.50}`},
			ReadVersion: ptr(int64(0)), IsBlindAppend: ptr(false), OperationMetrics: map[string]string{"n": "12"}, Tags: map[string]string{"t": "u"},
			Extra: jsontext.Value(`{"clusterId":"c","txnId":5,"job":{"id":"1"}}`),
		}}}},
		{"commitInfo without integers", `{"commitInfo":{"timestamp":1.5,"readVersion":"7"}}`, []Action{{CommitInfo: &CommitInfo{Extra: jsontext.Value(`{"readVersion":"7"}`)}}}},
		{"V2 log checkpoint", `{"checkpointMetadata":{"version":3,"tags":{"a":"b"}}}` + "\n" + `{"sidecar":{"path":"s","sizeInBytes":1,"modificationTime":2}}`, []Action{
			{CheckpointMetadata: &CheckpointMetadata{3, map[string]string{"a": "b"}}}, {Sidecar: &Sidecar{Path: "s", SizeInBytes: 1, ModificationTime: 2}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 {
				got = nil
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("actions differ (-want +got):\n%s", d)
			}
		})
	}
}

func TestDecodeRefusesDamageAndNamesTheLine(t *testing.T) {
	const ok = "{\"txn\":{\"appId\":\"x\",\"version\":1}}\n"
	for name, c := range map[string]struct{ text, want string }{
		"truncated":                   {ok + `{"add":{"path":"a","si`, "line 2: "},
		"truncated at the start":      {ok + ok + `{`, "line 3: "},
		"repeated member":             {`{"add":{"path":"a","path":"b","size":1}}`, "duplicate"},
		"repeated action":             {`{"txn":null,"txn":null}`, "duplicate"},
		"not UTF-8":                   {"{\"add\":{\"path\":\"\xff\",\"size\":1}}", "UTF-8"},
		"no object":                   {ok + "[]", "line 2: want an object, found an array"},
		"not JSON":                    {ok + ok + "hello", "line 3: "},
		"no path":                     {`{"add":{"size":1}}`, "add: member path is missing"},
		"no size":                     {`{"add":{"path":"a","size":null}}`, "add: member size is missing"},
		"size is text":                {`{"add":{"path":"a","size":"1"}}`, "add: member size: want an integer, found a string"},
		"size has a fraction":         {`{"add":{"path":"a","size":1.0}}`, "want a 64-bit integer, found 1.0"},
		"size is too large":           {`{"add":{"path":"a","size":9223372036854775808}}`, "want a 64-bit integer"},
		"offset is too large":         {`{"add":{"path":"a","size":1,"deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":2147483648}}}`, "want a 32-bit integer"},
		"vector without identity":     {`{"add":{"path":"a","size":1,"deletionVector":{}}}`, "storageType"},
		"partition value is a number": {`{"add":{"path":"a","partitionValues":{"p":1},"size":1}}`, "member partitionValues: member p: want a string, found a number"},
		"remove is text":              {`{"remove":"a"}`, "remove: want an object, found a string"},
		"features are text":           {`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":"x"}}`, "want an array"},
		"protocol without versions":   {`{"protocol":{"readerVersion":1,"writerVersion":2}}`, "not both positive"},
		"txn without version":         {`{"txn":{"appId":"x"}}`, "member version is missing"},
		"brace too many":              {ok + "}", "line 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.text))
			var damage *DecodeError
			if !errors.As(err, &damage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want a *DecodeError that says %q", err, c.want)
			}
		})
	}
}

func TestDecodeFuncStopsWithTheCallersError(t *testing.T) {
	stop := errors.New("stop")
	n := 0
	err := DecodeFunc([]byte(`{"txn":{"appId":"x","version":1}}{"txn":{"appId":"y","version":1}}`), func(Action) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Errorf("error is %v after %d actions, want stop after 1", err, n)
	}
}

func TestDecodeSharesPartitionValuesOfOnePartition(t *testing.T) {
	got, err := Decode([]byte(`{"add":{"path":"a","partitionValues":{"p":"1"},"size":1}}` + "\n" + `{"add":{"path":"b","partitionValues":{"p":"1"},"size":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := got[0].Add.PartitionValues["p"], got[1].Add.PartitionValues["p"]; a != b {
		t.Error("two maps for one partition")
	}
}

// foreignEntries returns log entries that other writers made; none without the tables.
func foreignEntries(t testing.TB) [][]byte {
	t.Helper()
	dir := os.Getenv("DELTAFOLD_TABLES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "tables")
	}
	names, err := filepath.Glob(filepath.Join(dir, "*", "_delta_log", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entries [][]byte
	for _, name := range names {
		if strings.HasPrefix(filepath.Base(name), ".") {
			continue // macOS puts files of its own there
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, data)
	}
	return entries
}

func TestDecodeForeignEntriesAgreesWithOracle(t *testing.T) {
	entries := foreignEntries(t)
	if len(entries) == 0 {
		t.Skip("no foreign tables: set DELTAFOLD_TABLES to their folder")
	}
	for _, data := range entries {
		if got, err := Decode(data); err != nil {
			t.Errorf("%v in %.200s", err, data)
		} else {
			checkOracle(t, data, got)
			checkStable(t, got)
		}
	}
	t.Logf("%d log entries", len(entries))
}
