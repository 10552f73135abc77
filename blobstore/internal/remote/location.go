package remote

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// PrefixOf is what the path of a location is as a prefix of keys: "", or parts
// that end in '/'. It is taken as it is written, nothing is decoded, as Hadoop and
// delta-rs have it. A '#' and parts that keys cannot have are errors.
func PrefixOf(u *url.URL) (string, error) {
	if u.Fragment != "" || u.RawFragment != "" {
		return "", errors.New("the URL has a '#', which a prefix cannot hold")
	}
	written := u.RawPath // set if it is not what escaping the path would give
	if written == "" {
		written = u.EscapedPath()
	}
	prefix := strings.TrimRight(strings.TrimPrefix(written, "/"), "/")
	if prefix == "" {
		return "", nil
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("prefix %q has the part %q, which keys cannot have", prefix, part)
		}
	}
	return prefix + "/", nil
}
