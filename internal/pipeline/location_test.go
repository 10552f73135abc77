package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

func TestCheckLocationRefusesCredentialsWithoutRepeatingThem(t *testing.T) {
	for _, bad := range []string{
		"s3://AKIAHIDDEN:hidden@bucket/t",
		"s3://AKIAHIDDEN:hid/den+hidden@bucket/t",
		"s3a://AKIAHIDDEN@bucket/t",
		"S3://AKIAHIDDEN:hidden@bucket/t",
		"s3://hidden:hidden/t",
		"gs://hidden@bucket/t",
		"https://me:hidden@example.org/b/t",
		"abfss://c:hidden@account.dfs.core.windows.net/t",
		"azblob://container/t?sig=hidden",
		"az://container/t?sv=2024&se=2030&sp=r&sig=hidden",
		"s3://b/t?X-Amz-Signature=hidden",
		"s3://b/t?x-amz-credential=hidden",
		"s3://b/t?region=eu&secret_access_key=hidden",
		"s3://b/t?region=eu&AWS%5FSecret_Access_Key=hidden",
		"s3://b/t?awssecretaccesskey=hidden",
		"s3://b/t?session-token=hidden",
		"gs://b/t?access_token=hidden",
		"azblob://c/t?account_key=hidden",
	} {
		err := CheckLocation(bad)
		var u *UsageError
		if !errors.As(err, &u) {
			t.Errorf("%s: got %v, want a mistake of usage", bad, err)
			continue
		}
		if strings.Contains(strings.ToLower(err.Error()), "hidden") {
			t.Errorf("%s: the message repeats it: %v", bad, err)
		}
	}
	for _, good := range []string{
		"t", "./a@b:c", "/a/b?sig=1", "file:///a@b/c?", "mem://a@b:c", "s3://b", "s3://b/t/", "s3a://b/time=10:00/x@y.jsonl",
		"s3://b/t?region=eu-west-1&endpoint=http://127.0.0.1:9000&kmskeyid=abc&web_identity_token_file=/run/token",
		"abfss://container@account.dfs.core.windows.net/t", "wasbs://c@a.blob.core.windows.net/t", "https://example.org:8080/x",
	} {
		if err := CheckLocation(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

func TestOutcomesLieBesideTheTable(t *testing.T) {
	for _, c := range []struct{ state, property, want string }{
		{"file:///a/t", "", "file:///a/t-outcomes"},
		{"mem://t", "", "mem://t-outcomes"},
		{"s3://b/t", "", "s3://b/t-outcomes"},
		{"s3://b/a/t/", "", "s3://b/a/t-outcomes"},
		{"s3://b/t?region=eu", "", "s3://b/t-outcomes?region=eu"},
		{"s3://b", "", "s3://b/_outcomes"},
		{"s3://b?region=eu", "", "s3://b/_outcomes?region=eu"},
		{"abfss://c@a.dfs.core.windows.net", "", "abfss://c@a.dfs.core.windows.net/_outcomes"},
		{"abfss://c@a.dfs.core.windows.net/t", "", "abfss://c@a.dfs.core.windows.net/t-outcomes"},
		{"s3://b/t", "s3://o/x", "s3://o/x"},
	} {
		if got := OutcomesURL(c.state, c.property); got != c.want {
			t.Errorf("%s, %q: got %s, want %s", c.state, c.property, got, c.want)
		}
	}
}

func TestSplitURLOfObjectStores(t *testing.T) {
	type split struct{ Dir, Key string }
	for location, want := range map[string]split{
		"file:///a/b%20c.jsonl":             {"file:///a", "b c.jsonl"},
		"file:///b.jsonl":                   {"file:///", "b.jsonl"},
		"mem://m/b%20c.jsonl":               {"mem://m", "b%20c.jsonl"},
		"s3://b/x.jsonl":                    {"s3://b", "x.jsonl"},
		"s3://b/a/x.jsonl?region=eu":        {"s3://b?region=eu", "a/x.jsonl"},
		"s3://b/a%20b/50%.jsonl":            {"s3://b", "a%20b/50%.jsonl"}, // taken as it is written
		"gs://b/a%20b/x%3Fy.jsonl":          {"gs://b", "a%20b/x%3Fy.jsonl"},
		"abfss://c@a.example/d/x.jsonl":     {"abfss://c@a.example", "d/x.jsonl"},
		"S3A://b/x.jsonl?endpoint=http://h": {"S3A://b?endpoint=http://h", "x.jsonl"},
	} {
		dir, key, err := splitURL(location)
		if d := cmp.Diff(want, split{dir, key}); d != "" || err != nil {
			t.Errorf("%s: %v %s", location, err, d)
		}
	}
	for _, location := range []string{"s3://b", "s3://b/", "s3://b/a/", "s3://b?region=eu", "file:///"} {
		if _, _, err := splitURL(location); err == nil {
			t.Errorf("%s: it names no file and was taken", location)
		}
	}
}

// bucketEnv opens s3:// URLs in memory, under canonical URLs without parameters,
// and fails without the parameter that leads there.
func bucketEnv(t *testing.T) *Env {
	name := memURL(t)
	return &Env{Open: func(ctx context.Context, url string) (*blobstore.Store, error) {
		if !strings.HasPrefix(url, "s3") {
			return blobstore.Open(ctx, url)
		}
		base, query := cutQuery(url)
		if !strings.Contains(query, "region=marker") {
			return nil, fmt.Errorf("open %s: no way leads there", url)
		}
		base = "s3://" + strings.TrimRight(strings.TrimPrefix(strings.Replace(base, "s3a:", "s3:", 1), "s3://"), "/")
		bucket, prefix, _ := strings.Cut(strings.TrimPrefix(base, "s3://"), "/")
		s, err := blobstore.Open(ctx, name+"-"+bucket)
		if err != nil {
			return nil, err
		}
		var d blobstore.Driver
		s.Wrap(func(in blobstore.Driver) blobstore.Driver { d = in; return in })
		if prefix != "" {
			prefix += "/"
		}
		return blobstore.New(&below{d, prefix}, base), nil
	}}
}

// below is the part of a store below a prefix.
type below struct {
	blobstore.Driver
	prefix string
}

func (b *below) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return b.Driver.Read(ctx, b.prefix+key, off, n)
}

func (b *below) OpenReader(ctx context.Context, key string, size int64) (blobstore.DriverReader, error) {
	return b.Driver.OpenReader(ctx, b.prefix+key, size)
}

func (b *below) Put(ctx context.Context, key string, data []byte) error {
	return b.Driver.Put(ctx, b.prefix+key, data)
}

func (b *below) Create(ctx context.Context, key string, data []byte) (blobstore.Outcome, error) {
	return b.Driver.Create(ctx, b.prefix+key, data)
}

func (b *below) NewWriter(ctx context.Context, key string) (blobstore.DriverWriter, error) {
	return b.Driver.NewWriter(ctx, b.prefix+key)
}

func (b *below) List(ctx context.Context, prefix, from string) iter.Seq2[blobstore.Info, error] {
	return func(yield func(blobstore.Info, error) bool) {
		for info, err := range b.Driver.List(ctx, b.prefix+prefix, b.prefix+from) {
			info.Key = strings.TrimPrefix(info.Key, b.prefix)
			if !yield(info, err) {
				return
			}
		}
	}
}

func (b *below) Stat(ctx context.Context, key string) (blobstore.Info, error) {
	return b.Driver.Stat(ctx, b.prefix+key)
}

func (b *below) Delete(ctx context.Context, key string) error {
	return b.Driver.Delete(ctx, b.prefix+key)
}

// What says how to get to a store from here is not kept in a table: neither in
// its log, nor in its outcomes.
func TestParametersOfURLsAreNotStored(t *testing.T) {
	e := bucketEnv(t)
	const query = "?endpoint=http://127.0.0.1:9000&region=marker"
	in, err := e.open(t.Context(), "s3://b/in"+query)
	if err != nil {
		t.Fatal(err)
	}
	row := `{"change_id":"1","entity_id":"a","source_version":1,"operation":"upsert","value":"x"}` + "\n"
	if err := in.Put(t.Context(), "batch-1.jsonl", []byte(row)); err != nil {
		t.Fatal(err)
	}
	rep, err := Apply(t.Context(), e, &ApplyJob{Table: "s3a://b/t/" + query, Files: []string{"s3://b/in/batch-1.jsonl" + query}})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{rep.Batch, rep.Table, rep.Outcomes}
	if d := cmp.Diff([]string{"batch-1.jsonl", "s3://b/t", "s3://b/t-outcomes"}, got); d != "" {
		t.Error("-want +got\n", d)
	}
	objects := 0
	root, err := e.open(t.Context(), "s3://b")
	if err != nil {
		t.Fatal(err)
	}
	for info, err := range root.List(t.Context(), "t", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := root.Get(t.Context(), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		objects++
		for _, way := range []string{"marker", "127.0.0.1", "endpoint"} {
			if bytes.Contains(data, []byte(way)) {
				t.Errorf("%s holds %q:\n%s", info.Key, way, data)
			}
		}
	}
	if objects != 4 {
		t.Errorf("%d objects were looked at, want a log entry and a file of each table", objects)
	}
	// The next run has the parameters with the table alone.
	e = bucketEnv(t)
	var out bytes.Buffer
	_, err = ReadOutcomes(t.Context(), e, &OutcomesJob{Table: "s3://b/t" + query, Columns: []string{"_file", "outcome"}, Format: "jsonl", Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `{"_file":"s3://b/in/batch-1.jsonl","outcome":"accepted"}`+"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	audit, err := Audit(t.Context(), e, &AuditJob{Table: "s3://b/t", Changes: "s3://b/in", Full: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(audit.Findings) > 0 {
		t.Error(audit.Findings)
	}
	if _, err := Audit(t.Context(), e, &AuditJob{Table: "s3://b/t", Changes: "s3://b/nothing"}); err == nil {
		t.Error("a folder of change files without any was taken")
	}
}

// The outcomes of a table in an object store are where others find them too.
func TestOutcomesOfABucketAreInABucket(t *testing.T) {
	const prop = change.PropOutcomes
	for _, given := range []string{prop + "=s3://b/o?endpoint=http://h", prop + "=s3://k:hidden@b/o", prop + "=azblob://c/o?sig=hidden"} {
		_, _, err := SplitProperties([]string{given})
		var u *UsageError
		if !errors.As(err, &u) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: got %v, want a mistake of usage", given, err)
		}
	}
	e := bucketEnv(t)
	const table = "s3://b/t?region=marker"
	for _, where := range []string{"./outcomes", "file:///outcomes"} {
		_, outcomes, err := SplitProperties([]string{prop + "=" + where})
		if err != nil {
			t.Fatal(err)
		}
		var u *UsageError
		_, err = Create(t.Context(), e, &CreateJob{Table: table, Schema: "id long, v long, p string", Roles: RoleFlags{Keys: []string{"id"}, Versions: []string{"v"}, Outcomes: outcomes}})
		if !errors.As(err, &u) {
			t.Errorf("create, %s: got %v, want a mistake of usage", where, err)
		}
		_, err = Append(t.Context(), e, &AppendJob{Table: table, Files: []string{writeLines(t, `{"id":1}`)}, Schema: "id long", Properties: map[string]string{prop: outcomes}})
		if !errors.As(err, &u) {
			t.Errorf("append, %s: got %v, want a mistake of usage", where, err)
		}
	}
}

// A table that was copied from a folder remembers a folder, and can be told
// another place.
func TestOutcomesOfACopiedTable(t *testing.T) {
	e := bucketEnv(t)
	const table = "s3://b/t?region=marker"
	store, err := e.open(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	was, err := blobstore.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Create(t.Context(), e, &CreateJob{Table: was.URL(), Schema: "id long, v long, p string", Roles: RoleFlags{Keys: []string{"id"}, Versions: []string{"v"}, Outcomes: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	for info, err := range was.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := was.Get(t.Context(), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Put(t.Context(), info.Key, data); err != nil {
			t.Fatal(err)
		}
	}
	apply := func() error {
		_, err := Apply(t.Context(), e, &ApplyJob{Table: table, Files: []string{writeLines(t, `{"id":1,"v":1,"p":"x"}`)}})
		return err
	}
	read := func() error {
		_, err := ReadOutcomes(t.Context(), e, &OutcomesJob{Table: table, Format: "jsonl", Out: &bytes.Buffer{}})
		return err
	}
	for name, run := range map[string]func() error{"apply": apply, "outcomes": read} {
		var rule *RuleError
		if err := run(); !errors.As(err, &rule) || !strings.Contains(err.Error(), "a folder of this machine") {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	if _, err := SetProperties(t.Context(), e, table, []string{change.PropOutcomes + "=s3://b/o"}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(apply(), read()); err != nil {
		t.Error(err)
	}
}

// Whoever wrote a table's properties does not choose the server that its readers
// talk to.
func TestOutcomesElsewhereByAPropertyAreRefused(t *testing.T) {
	e := bucketEnv(t)
	for i, prop := range []string{"s3://o?region=marker&endpoint=http://elsewhere.example", "s3a://o/p?anonymous=true", "gs://o?universe_domain=x"} {
		table := fmt.Sprintf("s3://b/t%d?region=marker", i)
		// As another writer sets it: not through a flag, which refuses it.
		_, err := Create(t.Context(), e, &CreateJob{Table: table, Schema: "id long, v long, p string", Roles: RoleFlags{Keys: []string{"id"}, Versions: []string{"v"}}})
		if err != nil {
			t.Fatal(err)
		}
		tab, err := e.OpenTable(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := tab.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		md := *snap.Metadata()
		md.Configuration = maps.Clone(md.Configuration)
		md.Configuration[change.PropOutcomes] = prop
		if _, err := tab.TryCommit(t.Context(), snap, &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: &md}); err != nil {
			t.Fatal(err)
		}
		inner := e.Open
		e := &Env{Open: func(ctx context.Context, url string) (*blobstore.Store, error) {
			if strings.Contains(url, "://o") {
				t.Errorf("%s was opened", url)
			}
			return inner(ctx, url)
		}}
		_, applied := Apply(t.Context(), e, &ApplyJob{Table: table, Files: []string{writeLines(t, `{"id":1,"v":1,"p":"x"}`)}})
		_, read := ReadOutcomes(t.Context(), e, &OutcomesJob{Table: table, Format: "jsonl", Out: &bytes.Buffer{}})
		_, repaired := RepairOutcomes(t.Context(), e, table)
		for name, err := range map[string]error{"apply": applied, "outcomes": read, "repair-outcomes": repaired} {
			var rule *RuleError
			if !errors.As(err, &rule) || !strings.Contains(err.Error(), "with parameters") || strings.Contains(err.Error(), "elsewhere") {
				t.Errorf("%s, %s: got %v, want a refusal", name, prop, err)
			}
		}
	}
}

// The first parameters given for a bucket hold for each of its spellings, and for
// no other bucket.
func TestParametersHoldForABucket(t *testing.T) {
	for _, c := range []struct{ first, then, want string }{
		{"s3a://b/t?region=r", "s3://b/u", "s3://b/u?region=r"},
		{"s3a://b/t?region=r", "s3://c/u", "s3://c/u"},
		{"gs://b/t?anonymous=1", "gcs://b/u", "gcs://b/u?anonymous=1"},
		{"az://c/t?anonymous=1", "azblob://c/u", "azblob://c/u?anonymous=1"},
		{"wasbs://c@A.blob.core.windows.net/t?anonymous=1", "abfss://c@a.dfs.core.windows.net/u", "abfss://c@a.dfs.core.windows.net/u?anonymous=1"},
		{"wasbs://c@a.blob.core.windows.net/t?anonymous=1", "abfss://c@b.dfs.core.windows.net/u", "abfss://c@b.dfs.core.windows.net/u"},
	} {
		e := &Env{}
		e.withParameters(c.first)
		if got := e.withParameters(c.then); got != c.want {
			t.Errorf("%s after %s: %s, want %s", c.then, c.first, got, c.want)
		}
	}
}
