package deltatable

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// CanonicalLocation is the one spelling of URLs that name the same place: s3a:// and
// s3n:// are s3://, gcs:// is gs://, az:// is azblob://, abfs://, wasb:// and wasbs://
// are abfss://; file:/x and file:///x are /x. Anything else is returned as it is.
func CanonicalLocation(url string) string { return action.CanonicalLocation(url) }

// foreignStores keeps the stores that absolute paths of actions lie in, by
// folder or bucket. It holds nothing of the table (I5).
type foreignStores struct {
	opener func(ctx context.Context, url string) (*blobstore.Store, error)
	mu     sync.Mutex
	open   map[string]*blobstore.Store
}

// locate is the store and key of the file that an action's path names
// (PROTOCOL.md "Add File and Remove File": a relative path from the table's
// root, or an absolute URI; decoded exactly once). A path below the table's
// own root is a key of the table's own store.
func (t *Table) locate(ctx context.Context, path string) (*blobstore.Store, string, error) {
	key, absolute, err := schema.DecodePath(action.CanonicalPath(t.store.URL(), path))
	if err != nil {
		return nil, "", err
	}
	if !absolute {
		return t.store, key, nil
	}
	root, rest, err := splitForeign(key)
	if err != nil {
		return nil, "", fmt.Errorf("path %q: %w", path, err)
	}
	store, err := t.foreign.get(ctx, root)
	if err != nil {
		return nil, "", err
	}
	return store, rest, nil
}

// splitForeign splits a decoded absolute path into the location of a store and the
// key there. Of an object store that is the bucket: what is decoded already must
// not be written into a URL, which would be decoded again. Of others the folder,
// which is taken literally.
func splitForeign(path string) (root, key string, err error) {
	if scheme, rest, ok := strings.Cut(path, "://"); ok && !strings.HasPrefix(path, "/") && !strings.EqualFold(scheme, "mem") {
		authority, key, _ := strings.Cut(rest, "/")
		// NB: a log must not say how a bucket is reached: requests, and with them a
		// session's token, would go to a server of its writer's choice.
		if strings.ContainsAny(authority, "?#%\\") {
			return "", "", fmt.Errorf("it names no bucket")
		}
		root, path = scheme+"://"+authority, key
	} else {
		slash := max(strings.LastIndexByte(path, '/'), 0)
		root, path = path[:max(slash, 1)], path[slash+1:]
	}
	if path == "" || strings.HasSuffix(path, "/") {
		return "", "", fmt.Errorf("it names no file")
	}
	return root, path, nil
}

func (f *foreignStores) get(ctx context.Context, url string) (*blobstore.Store, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.open[url]; ok {
		return s, nil
	}
	s, err := f.opener(ctx, url)
	if err != nil {
		return nil, err
	}
	if f.open == nil {
		f.open = make(map[string]*blobstore.Store)
	}
	f.open[url] = s
	return s, nil
}
