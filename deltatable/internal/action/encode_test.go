package action

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestEncodeWritesExactly(t *testing.T) {
	got, err := Encode([]Action{
		{CommitInfo: &CommitInfo{
			Timestamp: 1735689600123, InCommitTimestamp: ptr(int64(9007199254740993)), Operation: "MERGE",
			OperationParameters: map[string]string{"predicate": `["(t.id = s.id)"]`, "a": "x"}, ReadVersion: ptr(int64(41)), IsolationLevel: "Serializable",
			IsBlindAppend: ptr(false), OperationMetrics: map[string]string{"numSourceRows": "1000"}, UserMetadata: "é\n", EngineInfo: "e", TxnID: "t",
			Extra: jsontext.Value(`{ "clientVersion": "1" }`),
		}},
		{Protocol: &Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: []string{"appendOnly"}}},
		{Metadata: &Metadata{ID: "i", Provider: "parquet", SchemaString: `{"type":"struct"}`, Configuration: map[string]string{"b": "2", "a": "1"}}},
		{Add: &Add{Path: "a%20b", Size: 1 << 62, ModificationTime: -1, DataChange: true, Stats: `{"numRecords":1}`, PartitionValues: map[string]*string{"q": ptr("v"), "p": nil}}},
		{Remove: &Remove{Path: "x", DeletionTimestamp: ptr(int64(5)), ExtendedFileMetadata: true, Size: ptr(int64(0)), DeletionVector: &DeletionVector{"u", "dv", ptr(int32(1)), 36, 2}}},
		{Txn: &Txn{AppID: "", Version: -1}},
		{DomainMetadata: &DomainMetadata{Domain: "d", Configuration: ""}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"commitInfo":{"timestamp":1735689600123,"inCommitTimestamp":9007199254740993,"operation":"MERGE","operationParameters":{"a":"x","predicate":"[\"(t.id = s.id)\"]"},"readVersion":41,"isolationLevel":"Serializable","isBlindAppend":false,"operationMetrics":{"numSourceRows":"1000"},"userMetadata":"é\n","engineInfo":"e","txnId":"t","clientVersion":"1"}}
{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly"]}}
{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\"}","partitionColumns":[],"configuration":{"a":"1","b":"2"}}}
{"add":{"path":"a%20b","partitionValues":{"p":null,"q":"v"},"size":4611686018427387904,"modificationTime":-1,"dataChange":true,"stats":"{\"numRecords\":1}"}}
{"remove":{"path":"x","deletionTimestamp":5,"dataChange":false,"extendedFileMetadata":true,"partitionValues":{},"size":0,"deletionVector":{"storageType":"u","pathOrInlineDv":"dv","offset":1,"sizeInBytes":36,"cardinality":2}}}
{"txn":{"appId":"","version":-1}}
{"domainMetadata":{"domain":"d","configuration":"","removed":false}}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		action Action
		want   string
	}{
		"no member":        {Action{}, "0 members are set"},
		"two members":      {Action{Add: &Add{Path: "a"}, Txn: &Txn{}}, "2 members are set"},
		"no path":          {Action{Add: &Add{}}, "member path is empty"},
		"not UTF-8":        {Action{Add: &Add{Path: "\xff"}}, "UTF-8"},
		"no provider":      {Action{Metadata: &Metadata{ID: "i", SchemaString: "{}"}}, "member provider is empty"},
		"no versions":      {Action{Protocol: &Protocol{}}, "not both positive"},
		"extra is no JSON": {Action{CommitInfo: &CommitInfo{Extra: jsontext.Value(`[1]`)}}, "Extra is not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Encode([]Action{c.action}); err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s, %v, want an error that says %q", got, err, c.want)
			}
		})
	}
}
