package blobstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/deltafold/deltafold/blobstore/internal/filestore"
	"github.com/deltafold/deltafold/blobstore/internal/memstore"
)

// registry holds the schemes of linked stores and the in-memory stores by name.
// It is the one variable of the package; only Register and mem:// change it.
var registry = struct {
	sync.Mutex
	schemes map[string]Opener
	mem     map[string]*memstore.Store
}{
	schemes: map[string]Opener{},
	mem:     map[string]*memstore.Store{},
}

// Opener opens the store at a URL and returns its driver and its canonical URL,
// without a slash at the end: the one that Open takes for the same store. c is
// not nil. ctx is for opening only.
type Opener func(ctx context.Context, u *url.URL, c *Config) (d Driver, canonical string, err error)

// Register makes [Open] open URLs of a scheme. It is for the init functions of
// packages that hold a store; a scheme that is taken panics.
func Register(scheme string, open Opener) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.schemes[scheme]; taken || scheme == "file" || scheme == "mem" {
		panic("blobstore: internal error: scheme " + scheme + " registered twice")
	}
	registry.schemes[scheme] = open
}

// Open opens the store at location:
//
//   - a path, absolute or relative, taken literally: the folder of that name;
//   - file:///path, percent-decoded once: the same;
//   - mem://name: memory of this process, the same store for the same name;
//   - scheme://…: a store whose package is linked in, by its own rules.
//
// A folder need not exist; the first write makes it. ctx is for opening only.
func Open(ctx context.Context, location string) (*Store, error) {
	return OpenWith(ctx, location, nil)
}

// OpenWith is [Open] with a configuration; nil is that of Open. Folders and
// memory take nothing of it.
func OpenWith(ctx context.Context, location string, c *Config) (*Store, error) {
	if c == nil {
		c = &Config{}
	}
	s, err := open(ctx, location, c)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", redacted(location), err)
	}
	return s, nil
}

// redacted is a location without what may be secret in a URL: its user part and
// the values behind its '?'.
func redacted(location string) string {
	scheme, rest, isURL := cutScheme(location)
	if !isURL || scheme == "file" || scheme == "mem" {
		return location
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	rest = strings.TrimPrefix(rest, "//")
	host, path, hasPath := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 && (strings.HasPrefix(scheme, "s3") || strings.ContainsRune(host[:i], ':')) {
		host = "…" + host[i:]
	}
	location = scheme + "://" + host
	if hasPath {
		location += "/" + path
	}
	if hasQuery && query != "" {
		location += "?…"
	}
	return location
}

func open(ctx context.Context, location string, c *Config) (*Store, error) {
	if location == "" {
		return nil, fmt.Errorf("location is empty")
	}
	scheme, rest, isURL := cutScheme(location)
	switch {
	case !isURL:
		return openFolder(location)
	case scheme == "file":
		path, err := filePath(rest)
		if err != nil {
			return nil, err
		}
		return openFolder(path)
	case scheme == "mem":
		return openMemory(strings.TrimPrefix(rest, "//"))
	}
	registry.Lock()
	opener := registry.schemes[scheme]
	registry.Unlock()
	if opener == nil {
		return nil, fmt.Errorf("scheme %q is not known: the package of its store is not linked into this program", scheme)
	}
	u, err := url.Parse(location)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the location, which holds what redacted leaves out
		}
		return nil, err
	}
	d, canonical, err := opener(ctx, u, c)
	if err != nil {
		return nil, err
	}
	return New(d, canonical), nil
}

// cutScheme splits scheme://rest, and file:/rest; rest keeps its slashes.
// Anything else, "a:b" included, is a path.
func cutScheme(location string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(location, ":")
	if !ok || !strings.HasPrefix(rest, "/") {
		return "", "", false
	}
	for i, c := range []byte(strings.ToLower(scheme)) {
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(c))) {
			return "", "", false
		}
	}
	scheme = strings.ToLower(scheme)
	ok = scheme != "" && (strings.HasPrefix(rest, "//") || scheme == "file")
	return scheme, rest, ok
}

func filePath(rest string) (string, error) {
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		host, path, _ := strings.Cut(after, "/")
		if host != "" && host != "localhost" {
			return "", fmt.Errorf("file URL names the host %q: write file:///path", host)
		}
		rest = "/" + path
	}
	if strings.ContainsAny(rest, "?#") {
		return "", fmt.Errorf("file URL has a '?' or '#': write %%3F or %%23, or a plain path")
	}
	return url.PathUnescape(rest)
}

func openFolder(path string) (*Store, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, fmt.Errorf("path holds a NUL")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
	return New(filestore.New(abs, filestore.OS()), u.String()), nil
}

func openMemory(name string) (*Store, error) {
	name = strings.Trim(name, "/")
	if name == "" {
		return nil, fmt.Errorf("mem URL without a name: write mem://name")
	}
	registry.Lock()
	defer registry.Unlock()
	m := registry.mem[name]
	if m == nil {
		m = memstore.New()
		registry.mem[name] = m
	}
	return New(m, "mem://"+name), nil
}
