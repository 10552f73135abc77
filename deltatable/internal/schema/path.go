package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// HiveNull is the directory name's value of a NULL partition. It never stands
// in the log.
const HiveNull = "__HIVE_DEFAULT_PARTITION__"

// maxDirName keeps directory names below the limits of file systems (255 bytes)
// also when a store encodes them once more.
const maxDirName = 120

// PartitionDir gives the cosmetic directory name "col=value" of one partition
// column, Hive-escaped (protocol notes 1.7): never read back, the values are in
// the action. Names that would be too long are cut and end in a hash of the whole.
func PartitionDir(col string, v *string) string {
	val := HiveNull
	if v != nil && *v != "" {
		val = hiveEscape(*v)
	}
	dir := hiveEscape(col) + "=" + val
	if len(dir) <= maxDirName {
		return dir
	}
	cut := dir[:maxDirName-20]
	for i := 0; i < 3 && len(cut) > 0; i++ { // not within a character or an escape
		if r, n := utf8.DecodeLastRuneInString(cut); r == utf8.RuneError && n == 1 {
			cut = cut[:len(cut)-1]
		}
	}
	if i := strings.LastIndexByte(cut, '%'); i >= 0 && i > len(cut)-3 {
		cut = cut[:i]
	}
	if !strings.Contains(cut, "=") {
		cut += "="
	}
	return fmt.Sprintf("%s-%016x", cut, xxh3.HashString(dir))
}

const hexDigits = "0123456789ABCDEF"

func hiveEscape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c == 0x7f || strings.IndexByte(`"#%'*/:=?\{[]^`, c) >= 0 {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// EncodePath gives the path of an action for a key below the table's root:
// every byte that is not an unreserved character of a URI, '/' or '=' becomes
// %XX, once (PROTOCOL.md "Add File and Remove File"; I3).
func EncodePath(rel string) string {
	plain := true
	for i := 0; i < len(rel) && plain; i++ {
		plain = pathSafe(rel[i])
	}
	if plain {
		return rel
	}
	b := make([]byte, 0, len(rel)+16)
	for i := 0; i < len(rel); i++ {
		if c := rel[i]; pathSafe(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

func pathSafe(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~' || c == '/' || c == '='
}

// DecodePath undoes the encoding of an action's path exactly once; '+' is itself.
// A relative path gives a key below the table's root. An absolute one gives
// absolute == true and either a path of the local file system ("/a/b", from "/a/b",
// "file:/a/b" or "file:///a/b") or "scheme://…" with the path decoded. A path
// that leaves the root by "..", an empty one and a broken % are errors.
func DecodePath(actionPath string) (key string, absolute bool, err error) {
	if actionPath == "" {
		return "", false, fmt.Errorf("the path of an action is empty")
	}
	rest, prefix := actionPath, ""
	switch scheme, after, ok := strings.Cut(actionPath, ":"); {
	case strings.HasPrefix(actionPath, "/"):
		absolute = true
	case ok && strings.EqualFold(scheme, "file") && strings.HasPrefix(after, "/"):
		absolute, rest = true, after
		if strings.HasPrefix(after, "//") {
			host, path, _ := strings.Cut(after[2:], "/")
			if host != "" && !strings.EqualFold(host, "localhost") {
				return "", true, fmt.Errorf("path %q: a file on another host", actionPath)
			}
			rest = "/" + path
		}
	case ok && isScheme(scheme) && strings.HasPrefix(after, "//"):
		absolute, prefix, rest = true, scheme+":", after
	}
	key, err = unescape(rest)
	if err != nil {
		return "", absolute, fmt.Errorf("path %q: %w", actionPath, err)
	}
	if !absolute {
		for seg := range strings.SplitSeq(key, "/") {
			if seg == ".." {
				return "", false, fmt.Errorf("path %q: it leaves the table's root", actionPath)
			}
		}
		if key == "" || strings.HasPrefix(key, "/") {
			return "", false, fmt.Errorf("path %q: it names no file below the table's root", actionPath)
		}
	}
	return prefix + key, absolute, nil
}

func isScheme(s string) bool {
	for i := 0; i < len(s); i++ {
		letter := s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z'
		later := s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '-' || s[i] == '.'
		if !letter && (i == 0 || !later) {
			return false
		}
	}
	return s != ""
}

func unescape(s string) (string, error) {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s, nil
	}
	b := append(make([]byte, 0, len(s)), s[:i]...)
	for ; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("a %% without two hexadecimal digits")
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("a %% without two hexadecimal digits")
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	return string(b), nil
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
