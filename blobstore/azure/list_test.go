package azure

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// listing is a server of listings of perPage names, in the order of less, that
// begins where startFrom says unless it ignores that.
type listing struct {
	names   []string
	less    func(x, y string) int
	types   bool // name them, as an account with a hierarchical namespace does
	ignore  bool
	perPage int
	fail    int // the request, from 1, that is answered 500
	started string
}

func (l *listing) answer(rw http.ResponseWriter, r *http.Request, n int) {
	if n == l.fail {
		refuse(rw, 500, "InternalError", "once")
		return
	}
	q := r.URL.Query()
	l.started = q.Get("startfrom")
	if l.started == "" {
		l.started = q.Get("startFrom")
	}
	names := slices.DeleteFunc(slices.Clone(l.names), func(s string) bool {
		return !strings.HasPrefix(s, q.Get("prefix")) || !l.ignore && l.less(s, l.started) < 0 ||
			q.Get("marker") != "" && l.less(s, q.Get("marker")) < 0
	})
	slices.SortFunc(names, l.less)
	next := ""
	if len(names) > l.perPage {
		next, names = names[l.perPage], names[:l.perPage]
	}
	rw.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(rw, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>`)
	for _, name := range names {
		typ, size, metadata := "", 3, ""
		if l.types {
			typ = "<ResourceType>file</ResourceType>"
		}
		switch {
		case strings.HasSuffix(name, "DIR"):
			typ, size = "<ResourceType>directory</ResourceType>", 0
		case strings.HasSuffix(name, "MARK"):
			metadata, size = "<Metadata><Hdi_isfolder>true</Hdi_isfolder></Metadata>", 0
		}
		_, _ = io.WriteString(rw, "<Blob><Name>")
		_ = xml.EscapeText(rw, []byte(name))
		_, _ = fmt.Fprintf(rw, `</Name><Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Etag>0x1</Etag><Content-Length>%d</Content-Length>%s<BlobType>BlockBlob</BlobType></Properties>%s</Blob>`, size, typ, metadata)
	}
	_, _ = io.WriteString(rw, "</Blobs><NextMarker>")
	_ = xml.EscapeText(rw, []byte(next))
	_, _ = io.WriteString(rw, "</NextMarker></EnumerationResults>")
}

// byFolder is the order of a hierarchical namespace: a folder's contents before
// names that go on.
func byFolder(x, y string) int {
	return strings.Compare(strings.ReplaceAll(x, "/", "\x00"), strings.ReplaceAll(y, "/", "\x00"))
}

// byUTF16 is an order of 16-bit units, which places characters beyond U+FFFF below
// U+E000.
func byUTF16(x, y string) int {
	units := func(s string) []rune {
		var out []rune
		for _, r := range s {
			if r > 0xFFFF {
				out = append(out, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF)
			} else {
				out = append(out, r)
			}
		}
		return out
	}
	return slices.Compare(units(x), units(y))
}

var names = []string{
	"a-b", "a-b/x", "a.b", "a/MARK", "a/b", "a/b/c", "a/c-d", "a/c/d", "a0", "aDIR", "a/bDIR", "a b", "a b/c", "z",
	"l/00000000000000000001.json", "l/00000000000000000002.checkpoint.parquet", "l/00000000000000000002.json", "l/_last",
}

// Whatever the order of the server, and whether it honours startFrom: a listing
// has all objects from a key on, in the order of bytes, and no folders.
func TestListIsInTheOrderOfBytes(t *testing.T) {
	for what, l := range map[string]listing{
		"flat":                        {less: strings.Compare, perPage: 3},
		"flat, startFrom ignored":     {less: strings.Compare, perPage: 3, ignore: true},
		"by folders":                  {less: byFolder, types: true, perPage: 3},
		"by folders, of one page":     {less: byFolder, types: true, perPage: 99},
		"by folders, request fails":   {less: byFolder, types: true, perPage: 3, fail: 3},
		"by UTF-16, of one page":      {less: byUTF16, perPage: 99, names: []string{"\U0001F600", "\uE000", "\uFF00/x", "z", "é"}},
		"by folders without types, 1": {less: byFolder, perPage: 99},
	} {
		t.Run(what, func(t *testing.T) {
			if l.names == nil {
				l.names = names
			}
			for _, from := range append([]string{"", "a", "a-", "a/", "b", "l/00000000000000000002", "\xff"}, l.names...) {
				for _, prefix := range []string{"", "a/", "l/"} {
					w := newWire(t, l.answer)
					checkListing(t, w.driver(), l.names, prefix, from)
				}
			}
		})
	}
}

func checkListing(t *testing.T, d driver.Driver, names []string, prefix, from string) {
	t.Helper()
	want, got := []string{}, []string{}
	for _, n := range names {
		if strings.HasPrefix(n, prefix) && n >= from && !strings.HasSuffix(n, "DIR") && !strings.HasSuffix(n, "MARK") {
			want = append(want, n)
		}
	}
	slices.Sort(want)
	for info, err := range d.List(t.Context(), prefix, from) {
		if err != nil {
			t.Errorf("List(%q, %q): %v", prefix, from, err)
			return
		}
		if info.Size != 3 || info.ETag != "0x1" || info.ModTime.Unix() != 1767323045 {
			t.Errorf("%+v", info)
		}
		got = append(got, info.Key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List(%q, %q) (-want +got):\n%s", prefix, from, diff)
	}
}

// An order that cannot be put right is an error, not a listing with holes: here
// pages by UTF-16 units.
func TestListOutOfOrder(t *testing.T) {
	l := listing{less: byUTF16, perPage: 1, names: []string{"\U0001F600", "\uE000"}}
	var last error
	for _, err := range newWire(t, l.answer).driver().List(t.Context(), "", "") {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "order of bytes") {
		t.Errorf("got %v", last)
	}
}

// A listing that is whole leaves nothing behind.
func TestHeldPagesAreDropped(t *testing.T) {
	l := listing{less: byFolder, types: true, perPage: 3, names: names}
	b := newWire(t, l.answer).bucket(account{anonymous: true})
	token := ""
	for {
		page, next, err := b.List(t.Context(), "", "", token)
		if err != nil {
			t.Fatal(err)
		}
		if token = next; next == "" {
			if len(page) != len(names)-3 {
				t.Errorf("%d objects", len(page))
			}
			break
		}
	}
	if n := len(b.held.pages); n != 0 {
		t.Errorf("%d listings are held", n)
	}
}

// The server begins at a key that is below from in every order there may be.
func TestStartFrom(t *testing.T) {
	for _, c := range [][3]string{ // prefix, from, start
		{"", "", ""},
		{"a/", "a", ""},
		{"a/", "a/", ""},
		{"b", "a", ""},
		{"l/", "l/00000000000000000042.json", "l/00000000000000000042"},
		{"l/", "l/00000000000000000042", "l/00000000000000000042"},
		{"t b/l/", "t b/l/_x", "t b/l/_x"},
		{"", "a-b", "a"},
		{"a/", "a/b", "a/b"},
		{"", "-b", ""},
		{"a", "b-c", ""},
		{"", "é", ""},
		{"", "aé", "a"},
		{"a-b", "a-c", ""},
		{"a-b", "a-bc-d", "a-bc"},
	} {
		if got := startFrom(c[0], c[1]); got != c[2] {
			t.Errorf("startFrom(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
