package faultproxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Credentials sign requests anew whose signed headers a fault changes.
type Credentials struct{ AccessKey, SecretKey string }

const amzTime = "20060102T150405Z"

// sign replaces the signature of a request signed with AWS Signature Version 4
// by one over the headers that are left of those that were signed. The digest of
// the body is taken as it stands in x-amz-content-sha256. A request without a
// signature stays as it is.
func (c *Credentials) sign(r *http.Request, at time.Time) {
	fields := strings.FieldsFunc(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256"), func(c rune) bool { return c == ',' || c == ' ' })
	var scope []string
	var signed []string
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "Credential":
			scope = strings.Split(value, "/")
		case "SignedHeaders":
			signed = strings.Split(value, ";")
		}
	}
	if len(scope) != 5 {
		return
	}
	stamp := at.UTC().Format(amzTime)
	r.Header.Set("X-Amz-Date", stamp)
	scope = append([]string{stamp[:8]}, scope[2:]...)
	signed = slices.DeleteFunc(signed, func(name string) bool {
		return name != "host" && name != "content-length" && r.Header.Get(name) == ""
	})
	slices.Sort(signed)
	canonical := sha256.Sum256([]byte(canonicalRequest(r, signed)))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, strings.Join(scope, "/"), hex.EncodeToString(canonical[:])}, "\n")
	key := []byte("AWS4" + c.SecretKey)
	for _, part := range append(scope, text) {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.AccessKey+"/"+strings.Join(scope, "/")+
		", SignedHeaders="+strings.Join(signed, ";")+", Signature="+hex.EncodeToString(key))
}

func canonicalRequest(r *http.Request, signed []string) string {
	var b strings.Builder
	b.WriteString(r.Method + "\n" + r.URL.EscapedPath() + "\n" + canonicalQuery(r.URL.Query()) + "\n")
	for _, name := range signed {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		b.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	b.WriteString("\n" + strings.Join(signed, ";") + "\n" + r.Header.Get("X-Amz-Content-Sha256"))
	return b.String()
}

func canonicalQuery(q url.Values) string {
	return strings.ReplaceAll(q.Encode(), "+", "%20") // Encode sorts by key
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
