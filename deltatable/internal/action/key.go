package action

import (
	"net/url"
	"strconv"
	"strings"
)

// FileKey is the identity of a logical file: I3. Two adds with the same path and
// different deletion vectors are different logical files. Comparable.
type FileKey struct {
	// Path is the path as written; absolute forms are normalised.
	Path string
	// DV is the unique id of the deletion vector; "" without one.
	DV string
}

// Compare orders keys by path, then by vector, bytewise.
func (k FileKey) Compare(o FileKey) int {
	if c := strings.Compare(k.Path, o.Path); c != 0 {
		return c
	}
	return strings.Compare(k.DV, o.DV)
}

// UniqueID returns the vector's identity: storage type, path or inline data and, only
// if there is one, "@" and the offset (PROTOCOL.md "Derived Fields"). "" for nil.
func (d *DeletionVector) UniqueID() string {
	if d == nil {
		return ""
	}
	id := d.StorageType + d.PathOrInlineDV
	if d.Offset != nil {
		id += "@" + strconv.FormatInt(int64(*d.Offset), 10)
	}
	return id
}

// CanonicalPath returns the form of an action's path that is compared: I3. A relative
// path is returned as written. An absolute one loses the differences between its
// forms (file:/x, file:///x, /x; s3a:// and s3://, and the others of
// canonicalScheme), and an absolute one below root, the table's
// canonical URL or absolute folder, becomes the relative path that it stands for,
// with the encoding it was written in.
func CanonicalPath(root, path string) string {
	p := CanonicalLocation(path)
	if !isAbsolute(p) || root == "" {
		return p
	}
	rest, ok := cutRoot(CanonicalLocation(strings.TrimRight(root, "/")), p)
	if !ok {
		return p
	}
	if !strings.HasPrefix(rest, "/") {
		return rest
	}
	// A slash too many below the root. In files it means nothing; what it left would
	// be taken for an absolute path. In object stores it is part of the key.
	if short := strings.TrimLeft(rest, "/"); short != "" && strings.HasPrefix(p, "/") {
		return short
	}
	return p
}

// CanonicalLocation is the one spelling of absolute file paths and of URLs of object
// stores that name the same place; every other path is left as it is.
func CanonicalLocation(path string) string {
	if i := strings.IndexByte(path[:min(len(path), len("azblob:"))], ':'); i > 0 && strings.HasPrefix(path[i:], "://") {
		if scheme := canonicalScheme(path[:i]); scheme != "" {
			return canonicalCloud(scheme, path[i+len("://"):])
		}
	}
	if len(path) < 6 || path[4] != ':' || path[5] != '/' || !strings.EqualFold(path[:4], "file") {
		return path
	}
	rest := path[5:]
	if strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///") {
		host, tail, ok := strings.Cut(rest[2:], "/")
		if !ok || !strings.EqualFold(host, "localhost") {
			return path // a share on another host is not a local path
		}
		return "/" + tail
	}
	return "/" + strings.TrimLeft(rest, "/")
}

// canonicalScheme is the one of the schemes that name the same object store, as
// package blobstore's stores are opened by them; "" for others.
func canonicalScheme(scheme string) string {
	switch strings.ToLower(scheme) {
	case "s3", "s3a", "s3n":
		return "s3"
	case "gs", "gcs":
		return "gs"
	case "azblob", "az":
		return "azblob"
	case "abfss", "abfs", "wasbs", "wasb":
		return "abfss"
	}
	return ""
}

// canonicalCloud is the URL of what stands behind the scheme. Of container@account
// the host comes in any case, and as that of the blob service or of Data Lake
// Storage, which have the same objects. NB: azblob:// names no account, so what it
// has in common with abfss:// cannot be seen.
func canonicalCloud(scheme, rest string) string {
	authority, path, slash := strings.Cut(rest, "/")
	if container, host, ok := strings.Cut(authority, "@"); ok && scheme == "abfss" {
		host = strings.ToLower(host)
		if account, suffix, ok := strings.Cut(host, ".blob."); ok && !strings.Contains(account, ".") {
			host = account + ".dfs." + suffix
		}
		authority = container + "@" + host
	}
	if slash {
		authority += "/"
	}
	return scheme + "://" + authority + path
}

// isAbsolute reports whether the path names a place by itself. NB: a colon alone does
// not make a scheme; "a:b.parquet" is a relative name (protocol notes 1.7).
func isAbsolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.Contains(path, "://")
}

// cutRoot removes root from the front of path. Both may be percent-encoded in
// different ways, so segments are compared decoded; what is left stays as written.
func cutRoot(root, path string) (string, bool) {
	if rest, ok := strings.CutPrefix(path, root+"/"); ok && rest != "" {
		return rest, true
	}
	n := strings.Count(root, "/") + 1
	at := 0
	for range n {
		i := strings.IndexByte(path[at:], '/')
		if i < 0 {
			return "", false
		}
		at += i + 1
	}
	head, rest := path[:at-1], path[at:]
	if rest == "" || decoded(head) != decoded(root) {
		return "", false
	}
	return rest, true
}

// decoded undoes percent-encoding once; a text that is not validly encoded stands for itself.
func decoded(s string) string {
	if d, err := url.PathUnescape(s); err == nil {
		return d
	}
	return s
}
