package action

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCanonicalPath(t *testing.T) {
	for _, c := range []struct{ root, path, want string }{
		{"file:///tmp/t", "part-1.parquet", "part-1.parquet"},
		{"file:///tmp/t", "a%20b", "a%20b"}, // as written: relative paths are never decoded
		{"file:///tmp/t", "a:b.parquet", "a:b.parquet"},
		{"file:///tmp/t", "file:/tmp/t/a%20b", "a%20b"},
		{"file:///tmp/t", "file:///tmp/t/p=1/x", "p=1/x"},
		{"file:///tmp/t", "file://localhost/tmp/t/x", "x"},
		{"file:///tmp/t", "/tmp/t/x", "x"},
		{"file:///tmp/t/", "/tmp/t/x", "x"},
		{"/tmp/t", "FILE:/tmp/t/x", "x"},
		{"file:///tmp/a%20b", "file:/tmp/a b/x", "x"},
		{"file:///tmp/a b", "/tmp/a%20b/x%20y", "x%20y"},
		{"file:///tmp/t", "/tmp/tt/x", "/tmp/tt/x"},
		{"file:///tmp/t", "/tmp/t", "/tmp/t"},
		{"file:///tmp/t", "file:/other/x", "/other/x"},
		{"file:///tmp/t", "file:///other/x", "/other/x"},
		{"file:///tmp/t", "file://host/tmp/t/x", "file://host/tmp/t/x"},
		{"s3://b/t", "s3://b/t/x", "x"},
		{"s3://b/t", "s3://c/t/x", "s3://c/t/x"},
		{"s3://b/t", "s3a://b/t/p=1/x", "p=1/x"},
		{"s3://b/t", "S3N://b/t/x", "x"},
		{"s3://b", "s3a://b/x", "x"},
		{"s3://b/t", "s3a://b/t/%20", "%20"},
		{"s3://b/t", "s3a://c/t/x", "s3://c/t/x"},
		{"s3://b/t", "s3a://b/t//x", "s3://b/t//x"},
		{"s3://b/t", "s3a:/b/t/x", "s3a:/b/t/x"},
		{"s3://b/t", "gs://b/t/x", "gs://b/t/x"},
		{"gs://b/t", "gcs://b/t/x", "x"},
		{"azblob://c/t", "az://c/t/x", "x"},
		{"azblob://c/t", "abfss://c@a.dfs.core.windows.net/t/x", "abfss://c@a.dfs.core.windows.net/t/x"},
		{"abfss://c@a.dfs.core.windows.net/t", "abfs://c@A.dfs.core.windows.net/t/x", "x"},
		{"abfss://c@a.dfs.core.windows.net/t", "wasbs://c@a.blob.core.windows.net/t/x", "x"},
		{"abfss://c@a.blob.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t/x", "x"},
		{"abfss://c@a.dfs.core.windows.net/t", "wasb://c@b.blob.core.windows.net/t/x", "abfss://c@b.dfs.core.windows.net/t/x"},
		{"", "file:/x", "/x"},
	} {
		if got := CanonicalPath(c.root, c.path); got != c.want {
			t.Errorf("CanonicalPath(%q, %q) = %q, want %q", c.root, c.path, got, c.want)
		}
	}
}

func TestRemoveOfCopiesTheAddToTheByte(t *testing.T) {
	a := &Add{
		Path: "p=a%2520b/x", PartitionValues: map[string]*string{"p": nil}, Size: 7, ModificationTime: 8, Stats: "{}",
		Tags: map[string]string{"t": "u"}, DeletionVector: &DeletionVector{StorageType: "u", PathOrInlineDV: "x", Offset: ptr(int32(1))}, BaseRowID: ptr(int64(3)),
	}
	want := &Remove{
		Path: "p=a%2520b/x", PartitionValues: map[string]*string{"p": nil}, Size: ptr(int64(7)), DeletionTimestamp: ptr(int64(12)), DataChange: true,
		ExtendedFileMetadata: true, Tags: map[string]string{"t": "u"}, DeletionVector: a.DeletionVector, BaseRowID: ptr(int64(3)),
	}
	got := RemoveOf(a, time.UnixMilli(12), true)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("remove differs (-want +got):\n%s", d)
	}
	if a.Key() != got.Key() || a.Key().DV != "ux@1" {
		t.Errorf("keys %v and %v", a.Key(), got.Key())
	}
}
