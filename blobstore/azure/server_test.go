package azure

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
	"github.com/deltafold/deltafold/internal/storeserver"
)

// server starts Azurite and has this process and its children use it. It is not
// Azure: it ignores startFrom, names no resource types, orders by UTF-16 units,
// and throttles nobody. wire_test.go and list_test.go have servers for these.
func server(t *testing.T) *storeserver.Server {
	t.Helper()
	s := storeserver.Azure(t)
	s.Setenv(t)
	return s
}

func openAt(t *testing.T, location string, c *blobstore.Config) *blobstore.Store {
	t.Helper()
	s, err := blobstore.OpenWith(t.Context(), location, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func onServer(t *testing.T, s *storeserver.Server) *bucket {
	t.Helper()
	client, err := (&account{service: s.Endpoint, name: s.AccessKey, key: s.SecretKey}).connect(s.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	return &bucket{client: client}
}

func TestSchemesNameOneStore(t *testing.T) {
	s := server(t)
	at := &blobstore.Config{Endpoint: s.Endpoint}
	if err := openAt(t, "azblob://"+s.Bucket+"/a b/%41", nil).Put(t.Context(), "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	host := "@" + s.AccessKey + ".dfs.core.windows.net"
	for _, location := range []string{
		"az://" + s.Bucket + "/a b/%41/", "abfss://" + s.Bucket + host + "/a b/%41", "wasbs://" + s.Bucket + strings.Replace(host, "dfs", "blob", 1) + "/a b/%41",
	} {
		if got, err := openAt(t, location, at).Get(t.Context(), "k"); string(got) != "x" || err != nil {
			t.Errorf("%s: %q, %v", location, got, err)
		}
	}
}

// Wrong credentials are refused by the server and reported as that, without the
// credentials.
func TestBadCredentials(t *testing.T) {
	s := server(t)
	good := onServer(t, s)
	if err := good.Put(t.Context(), "k", []byte("x"), remote.Always); err != nil {
		t.Fatal(err)
	}
	wrong := base64.StdEncoding.EncodeToString([]byte("another key, of no account at all"))
	expired := signed(t, s, sas.ContainerPermissions{Read: true, Write: true}, -time.Hour)
	readOnly := signed(t, s, sas.ContainerPermissions{Read: true, List: true}, time.Hour)
	forged := strings.Replace(readOnly, "sig=", "sig=AAAA", 1)
	for what, env := range map[string][2]string{
		"wrong key": {"AZURE_STORAGE_KEY", wrong}, "expired SAS": {"AZURE_STORAGE_SAS_TOKEN", expired}, "forged SAS": {"AZURE_STORAGE_SAS_TOKEN", forged},
	} {
		t.Run(what, func(t *testing.T) {
			if env[0] != "AZURE_STORAGE_KEY" {
				t.Setenv("AZURE_STORAGE_KEY", "")
			}
			t.Setenv(env[0], env[1])
			wantRefused(t, openAt(t, s.URL(), nil), env[1])
		})
	}
	t.Run("anonymous", func(t *testing.T) { wantRefused(t, openAt(t, s.URL()+"?anonymous=true", nil), "-") })
	t.Run("SAS to read", func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_KEY", "")
		t.Setenv("AZURE_STORAGE_SAS_TOKEN", readOnly)
		store := openAt(t, s.URL(), nil)
		if got, err := store.Get(t.Context(), "k"); string(got) != "x" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		out, err := store.Create(t.Context(), "new", nil)
		e, ok := errors.AsType[*remote.Error](err)
		if out != blobstore.NotDone || !ok || e.Class != remote.Refused || e.Status != 403 || e.RequestID == "" {
			t.Errorf("Create: %s, %v", out, err)
		}
	})
}

func wantRefused(t *testing.T, s *blobstore.Store, secret string) {
	t.Helper()
	out, createErr := s.Create(t.Context(), "new", nil)
	if out != blobstore.NotDone {
		t.Errorf("Create: %s", out)
	}
	_, getErr := s.Get(t.Context(), "k")
	_, statErr := s.Stat(t.Context(), "k")
	var listErr error
	for _, listErr = range s.List(t.Context(), "", "") {
	}
	for i, err := range []error{createErr, getErr, statErr, listErr} {
		e, ok := errors.AsType[*remote.Error](err)
		if !ok || e.Class != remote.Refused || e.Status < 400 || e.Status >= 500 || e.RequestID == "" || errors.Is(err, blobstore.ErrNotFound) {
			t.Errorf("call %d: %v", i, err)
			continue
		}
		for _, part := range strings.Split(secret, "&") {
			if len(part) > 20 && strings.Contains(err.Error(), part) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	}
}

// signed is a SAS token for the server's container.
func signed(t *testing.T, s *storeserver.Server, p sas.ContainerPermissions, life time.Duration) string {
	t.Helper()
	cred, err := container.NewSharedKeyCredential(s.AccessKey, s.SecretKey)
	if err != nil {
		t.Fatal(err)
	}
	v, err := sas.BlobSignatureValues{
		Protocol: sas.ProtocolHTTPSandHTTP, ContainerName: s.Bucket, Permissions: p.String(),
		StartTime: time.Now().Add(-2 * time.Hour).UTC(), ExpiryTime: time.Now().Add(life).UTC(),
	}.SignWithSharedKey(cred)
	if err != nil {
		t.Fatal(err)
	}
	return v.Encode()
}

// A container that does not exist is no empty store.
func TestNoContainer(t *testing.T) {
	s := server(t)
	store := openAt(t, "azblob://no-such-container", nil)
	_, getErr := store.Get(t.Context(), "k")
	_, statErr := store.Stat(t.Context(), "k")
	_, createErr := store.Create(t.Context(), "k", nil)
	var listErr error
	for _, listErr = range store.List(t.Context(), "", "") {
	}
	for i, err := range []error{getErr, statErr, createErr, listErr, store.Delete(t.Context(), "k")} {
		if err == nil || errors.Is(err, blobstore.ErrNotFound) || !strings.Contains(err.Error(), "container does not exist") {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if _, err := openAt(t, s.URL(), nil).Get(t.Context(), "k"); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("object: %v", err)
	}
}

// A lease is somebody's claim: we do not break it, and do not repeat.
func TestLease(t *testing.T) {
	s := server(t)
	b := onServer(t, s)
	ctx := t.Context()
	if err := b.Put(ctx, "k", []byte("x"), remote.Always); err != nil {
		t.Fatal(err)
	}
	l, err := lease.NewBlobClient(b.client.NewBlobClient("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.AcquireLease(ctx, 60, nil); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"put": b.Put(ctx, "k", []byte("y"), remote.Always), "delete": b.Delete(ctx, "k")} {
		e, ok := errors.AsType[*remote.Error](err)
		if !ok || e.Class != remote.Refused || e.Status != 412 || !strings.Contains(err.Error(), "lease") {
			t.Errorf("%s: %v", what, err)
		}
	}
	store := openAt(t, s.URL(), nil)
	if got, err := store.Get(ctx, "k"); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if out, err := store.Create(ctx, "k", []byte("y")); out != blobstore.Exists && out != blobstore.NotDone {
		t.Errorf("Create: %s, %v", out, err)
	}
}

// The blobs that stand for folders are not objects.
func TestFolders(t *testing.T) {
	s := server(t)
	b := onServer(t, s)
	for _, name := range []string{"Hdi_isfolder", "hdi_isfolder"} {
		_, err := b.client.NewBlockBlobClient(name).Upload(t.Context(), streaming.NopCloser(bytes.NewReader(nil)),
			&blockblob.UploadOptions{Metadata: map[string]*string{name: to.Ptr("true")}})
		if err != nil {
			t.Fatal(err)
		}
		_, headErr := b.Head(t.Context(), name)
		_, _, getErr := b.Get(t.Context(), name, driver.Range{N: -1}, "")
		_, _, endErr := b.Get(t.Context(), name, driver.Range{Off: -5}, "")
		for i, err := range []error{headErr, getErr, endErr} {
			if !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	}
	if page, next, err := b.List(t.Context(), "", "", ""); len(page) > 0 || next != "" || err != nil {
		t.Errorf("%v, %q, %v", page, next, err)
	}
}

// Azurite ignores startFrom: what lies below is skipped here, at the cost of
// fetching it. The order is that of bytes though Azurite's is that of UTF-16.
func TestListOnServer(t *testing.T) {
	s := server(t)
	b := onServer(t, s)
	want := []string{"a", "l/1", "l/2", "l/3", "z", "é", "\uE000", "\uFFFD", "\U0001F600", "\U00010000/x"}
	for _, name := range want {
		if err := b.Put(t.Context(), name, nil, remote.Always); err != nil {
			t.Fatal(err)
		}
	}
	want[8], want[9] = want[9], want[8]
	for _, c := range []struct {
		prefix, from string
		want         []string
	}{
		{"", "", want}, {"l/", "l/2", []string{"l/2", "l/3"}}, {"", "l/3", want[3:]}, {"", "\uFFFD", want[7:]}, {"l", "l/4", []string{}},
	} {
		page, next, err := b.List(t.Context(), c.prefix, c.from, "")
		got := []string{}
		for _, info := range page {
			got = append(got, info.Key)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || next != "" || err != nil {
			t.Errorf("List(%q, %q): next %q, %v (-want +got):\n%s", c.prefix, c.from, next, err, diff)
		}
	}
	pager := b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{StartFrom: to.Ptr("l/2")})
	res, err := pager.NextPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("startFrom: the server lists %d of %d objects", len(res.Segment.BlobItems), len(want))
}

func TestRangesOnServer(t *testing.T) {
	s := server(t)
	b := onServer(t, s)
	stats := new(driver.Stats)
	b.stats = stats
	if err := errors.Join(b.Put(t.Context(), "k", []byte("0123456789"), remote.Always), b.Put(t.Context(), "e", nil, remote.Always)); err != nil {
		t.Fatal(err)
	}
	k, err := b.Head(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key        string
		part       driver.Range
		etag, want string
	}{
		{"k", driver.Range{N: -1}, k.ETag, "0123456789"},
		{"k", driver.Range{Off: -3}, "", "789"},
		{"k", driver.Range{Off: -30}, k.ETag, "0123456789"},
		{"k", driver.Range{Off: 8, N: 5}, k.ETag, "89"},
		{"k", driver.Range{Off: 4, N: -1}, "", "456789"},
		{"k", driver.Range{Off: 10, N: 5}, "", ""},
		{"k", driver.Range{Off: 99, N: -1}, k.ETag, ""},
		{"k", driver.Range{Off: 3}, "", ""},
		{"e", driver.Range{N: -1}, "", ""},
		{"e", driver.Range{N: 5}, "", ""},
		{"e", driver.Range{Off: -5}, "", ""},
	} {
		body, info, err := b.Get(t.Context(), c.key, c.part, c.etag)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var got bytes.Buffer
		_, err = got.ReadFrom(body)
		_ = body.Close() // read to its end
		if got.String() != c.want || err != nil || c.key == "k" && info != k {
			t.Errorf("%+v: %q, %v, %+v", c, got.String(), err, info)
		}
	}
	if n := stats.Counts().Requests[driver.RequestHead]; n == 0 {
		t.Error("the requests for sizes are not counted")
	}
	if err := b.Put(t.Context(), "k", []byte("abcdefghij"), remote.Always); err != nil {
		t.Fatal(err)
	}
	for _, part := range []driver.Range{{N: -1}, {Off: 2, N: 2}, {Off: -2}, {Off: 20, N: 2}, {}} {
		_, _, err := b.Get(t.Context(), "k", part, k.ETag)
		if e, ok := errors.AsType[*remote.Error](err); !ok || e.Class != remote.Changed {
			t.Errorf("%+v of an object that was replaced: %v", part, err)
		}
	}
}

func TestLargeObjectsAndParts(t *testing.T) {
	s := server(t)
	store := openAt(t, s.URL(), nil)
	data := bytes.Repeat([]byte("0123456789abcdef!"), 1<<20)[:16<<20+12345]
	w, err := store.NewWriter(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Get(t.Context(), "big"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if w, err = store.NewWriter(ctx, "cancelled"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	// Blocks that were not committed are not seen, as an object or in a listing,
	// and not in the way of another writer. (Azurite takes them for an object where a
	// condition asks for none; names that are written in parts are never created on
	// condition.)
	for info, err := range store.List(t.Context(), "c", "") {
		t.Errorf("left: %+v, %v", info, err)
	}
	if _, err := store.Get(t.Context(), "cancelled"); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if err := store.Put(t.Context(), "cancelled", []byte("x")); err != nil {
		t.Error(err)
	}
	if got, err := store.Get(t.Context(), "cancelled"); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Parts arrive in any order, twice, and their list is committed twice, as after a
// lost answer.
func TestPartsInAnyOrder(t *testing.T) {
	b := onServer(t, server(t))
	ctx := t.Context()
	up, err := b.StartUpload(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.StartUpload(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		number int
		data   string
	}{{3, "c"}, {1, "not this"}, {2, "b"}, {1, "a"}} {
		if err := errors.Join(up.Part(ctx, part.number, []byte(part.data)), other.Part(ctx, part.number, []byte("other"))); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := up.Complete(ctx, 3); err != nil {
			t.Fatal(err)
		}
		body, _, err := b.Get(ctx, "k", driver.Range{N: -1}, "")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(body); got.String() != "abc" || err != nil {
			t.Errorf("%q, %v", got.String(), err)
		}
		_ = body.Close() // read to its end
	}
	if err := other.Abort(ctx); err != nil {
		t.Error(err)
	}
}

// The store compares checksums: bytes that changed on their way are not kept.
// (Azure answers Md5Mismatch, which is asked again; Azurite has a code of its own.)
func TestChecksums(t *testing.T) {
	b := onServer(t, server(t))
	_, err := b.client.NewBlockBlobClient("k").Upload(t.Context(), streaming.NopCloser(strings.NewReader("changed")),
		&blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeMD5(bytes.Repeat([]byte{1}, 16))})
	if e := opPut.failed(err); e.Status != 400 || e.Code != "InvalidOperation" {
		t.Errorf("%s %v", e.Code, e)
	}
	if _, err := b.Head(t.Context(), "k"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("the object is there: %v", err)
	}
}
