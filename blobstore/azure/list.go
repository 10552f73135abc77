package azure

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

const pageSize = 5000 // objects of one listing; the most that Azure gives

// held are the pages of listings that can only be sorted when they are whole: an
// account with a hierarchical namespace lists folder by folder, "a/b" before
// "a-b". They are known by numbers, which stand in front of the token of the next
// page. A listing that is given up leaves its pages here.
type held struct {
	mu    sync.Mutex
	last  int
	pages map[int][]driver.Info
}

// keep replaces what listing n has so far; 0 is a new one.
func (h *held) keep(n int, page []driver.Info) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n == 0 {
		h.last++
		n = h.last
	}
	if h.pages == nil {
		h.pages = map[int][]driver.Info{}
	}
	h.pages[n] = page
	return n
}

// of is what listing n has so far. It is not changed: an attempt may be repeated.
func (h *held) of(n int) []driver.Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.pages[n])
}

func (h *held) drop(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pages, n)
}

// List is [remote.Bucket]'s. Its tokens are "listing,marker", where 0 is a listing
// of which nothing is held.
func (b *bucket) List(ctx context.Context, prefix, from, token string) ([]driver.Info, string, error) {
	if !utf8.ValidString(prefix) {
		return nil, "", nil // no object has such a name
	}
	o := &container.ListBlobsFlatOptions{
		MaxResults: to.Ptr(int32(pageSize)),
		Include:    container.ListBlobsInclude{Metadata: true},
	}
	if prefix != "" {
		o.Prefix = to.Ptr(prefix)
	}
	if start := startFrom(prefix, from); start != "" {
		o.StartFrom = to.Ptr(start)
	}
	listing := 0
	if token != "" {
		number, marker, ok := strings.Cut(token, ",")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			return nil, "", refusal("internal error: token %q", token)
		}
		listing, o.Marker = n, to.Ptr(marker)
	}
	res, err := b.client.NewListBlobsFlatPager(o).NextPage(ctx)
	if err != nil {
		return nil, "", opList.failed(err)
	}
	// NB: the SDK takes an empty body for an empty answer, and a log that lists
	// nothing is no table (I4).
	if res.Segment == nil && res.ContainerName == nil {
		return nil, "", &remote.Error{Err: errors.New("the answer has no listing")}
	}
	page, hierarchical, err := listed(res.Segment, from)
	if err != nil {
		return nil, "", err
	}
	page = append(b.held.of(listing), page...)
	if res.NextMarker != nil && *res.NextMarker != "" {
		if listing != 0 || hierarchical {
			return nil, strconv.Itoa(b.held.keep(listing, page)) + "," + *res.NextMarker, nil
		}
		sortKeys(page)
		return page, "0," + *res.NextMarker, nil
	}
	b.held.drop(listing)
	sortKeys(page)
	return page, "", nil
}

// sortKeys puts a page into the order of bytes: the server's may be that of
// UTF-16, or of folders. Package remote checks the order of pages.
func sortKeys(page []driver.Info) {
	slices.SortFunc(page, func(x, y driver.Info) int { return strings.Compare(x.Key, y.Key) })
}

// listed is a page's objects that are not below from, and whether the account has
// a hierarchical namespace: only then types are named.
func listed(s *container.BlobFlatListSegment, from string) (page []driver.Info, hierarchical bool, err error) {
	if s == nil {
		return nil, false, nil
	}
	for _, item := range s.BlobItems {
		if item == nil || item.Name == nil || item.Properties == nil {
			return nil, false, &remote.Error{Err: errors.New("the listing lacks the name or the properties of an object")}
		}
		if t := item.Properties.ResourceType; t != nil && *t != "" {
			hierarchical = true
			if strings.EqualFold(*t, "directory") {
				continue
			}
		}
		if isFolder(item.Metadata) || *item.Name < from {
			continue
		}
		p := item.Properties
		info, err := describe(*item.Name, p.ETag, p.LastModified, p.ContentLength)
		if err != nil {
			return nil, false, err
		}
		page = append(page, info)
	}
	return page, hierarchical, nil
}

// startFrom is where the server may begin, whatever its order: the beginning of
// from up to the first character, behind the prefix, that the orders of folders
// or of UTF-16 place elsewhere than that of bytes. It is never above from in any
// of them. What lies between is skipped here.
func startFrom(prefix, from string) string {
	rest, ok := strings.CutPrefix(from, prefix)
	if !ok {
		return "" // below all keys with the prefix, or above them
	}
	n := 0
	for n < len(rest) && rest[n] >= '/' && rest[n] < 0x7f {
		n++
	}
	if n == 0 {
		return ""
	}
	return prefix + rest[:n]
}
