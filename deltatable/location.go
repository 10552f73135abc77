package deltatable

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// foreignStores keeps the stores that absolute paths of actions lie in, by
// folder or decoded URL. It holds nothing of the table (I5).
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
	slash := strings.LastIndexByte(key, '/')
	if slash < 0 || slash == len(key)-1 {
		return nil, "", fmt.Errorf("path %q names no file", path)
	}
	store, err := t.foreign.get(ctx, storeURL(key[:max(slash, 1)]))
	if err != nil {
		return nil, "", err
	}
	return store, key[slash+1:], nil
}

// storeURL is the location of a folder whose path was decoded: that of an object
// store is decoded again by who opens it. Folders and memory are taken literally.
func storeURL(folder string) string {
	scheme, rest, ok := strings.Cut(folder, "://")
	if !ok || strings.HasPrefix(folder, "/") || strings.EqualFold(scheme, "mem") {
		return folder
	}
	authority, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + authority + (&url.URL{Path: "/" + path}).EscapedPath()
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
