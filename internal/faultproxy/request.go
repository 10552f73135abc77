package faultproxy

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// Dialect is whose requests they are.
type Dialect uint8

const (
	// S3 is path style: /bucket/key.
	S3 Dialect = iota
	// GCS is the JSON API, with the XML API for reading.
	GCS
	// Azure is /account/container/blob, as Azurite has it.
	Azure
)

// Request is what a decision is made on. It is not to be changed.
type Request struct {
	// Kind is the store's own name of the call, such as PutObject or
	// CompleteMultipartUpload; it is told from method, path and query.
	Kind string
	// Method, Path (decoded) and Query are as sent.
	Method, Path string
	Query        url.Values
	// Bucket and Key are the object's. Key is the prefix of a listing.
	Bucket, Key string
	// Conditional tells whether it is done only if the object is absent, or is
	// still the same.
	Conditional bool
	Header      http.Header
	// Bytes is the length of the body.
	Bytes int64
	// N counts requests through the proxy, Nth those of this Kind and Key; both
	// from 1.
	N, Nth int
}

// Write tells whether the request changes something at the server.
func (r *Request) Write() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Log tells whether the request is of a Delta log entry.
func (r *Request) Log() bool {
	return strings.Contains(r.Key, "_delta_log/") && strings.HasSuffix(r.Key, ".json")
}

func parse(d Dialect, r *http.Request, body []byte) *Request {
	q := &Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header, Bytes: int64(len(body)),
		Conditional: r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Match") != "",
	}
	switch d {
	case S3:
		q.parseS3()
	case GCS:
		q.parseGCS(body)
	case Azure:
		q.parseAzure()
	}
	return q
}

func (r *Request) parseS3() {
	r.Bucket, r.Key, _ = strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	has := r.Query.Has
	if r.Key == "" {
		r.Key = r.Query.Get("prefix")
		switch {
		case r.Method == http.MethodGet && has("uploads"):
			r.Kind = "ListMultipartUploads"
		case r.Method == http.MethodGet && has("location"):
			r.Kind = "GetBucketLocation"
		case r.Method == http.MethodGet:
			r.Kind = "ListObjects"
		case r.Method == http.MethodHead:
			r.Kind = "HeadBucket"
		case r.Method == http.MethodPost && has("delete"):
			r.Kind = "DeleteObjects"
		default:
			r.Kind = r.Method + " bucket"
		}
		return
	}
	switch r.Method {
	case http.MethodGet:
		r.Kind = "GetObject"
		if has("uploadId") {
			r.Kind = "ListParts"
		}
	case http.MethodHead:
		r.Kind = "HeadObject"
	case http.MethodPut:
		r.Kind = "PutObject"
		if has("partNumber") {
			r.Kind = "UploadPart"
		}
	case http.MethodPost:
		r.Kind = "CompleteMultipartUpload"
		if has("uploads") {
			r.Kind = "CreateMultipartUpload"
		}
	case http.MethodDelete:
		r.Kind = "DeleteObject"
		if has("uploadId") {
			r.Kind = "AbortMultipartUpload"
		}
	default:
		r.Kind = r.Method
	}
}

func (r *Request) parseGCS(body []byte) {
	r.Conditional = r.Conditional || r.Query.Has("ifGenerationMatch") || r.Header.Get("X-Goog-If-Generation-Match") != ""
	upload := strings.HasPrefix(r.Path, "/upload/") || strings.HasPrefix(r.Path, "/resumable/")
	_, rest, api := strings.Cut(r.Path, "/storage/v1/b/")
	switch {
	case api && upload:
		r.Bucket, _, _ = strings.Cut(rest, "/")
		if r.Key = r.Query.Get("name"); r.Key == "" {
			r.Key = nameInBody(r.Header.Get("Content-Type"), body)
		}
		r.Kind = "objects.insert"
	case api:
		r.Bucket, rest, _ = strings.Cut(rest, "/")
		_, r.Key, _ = strings.Cut(rest, "/")
		switch {
		case r.Key == "":
			r.Key, r.Kind = r.Query.Get("prefix"), "objects.list"
		case r.Method == http.MethodGet && r.Query.Get("alt") == "media":
			r.Kind = "objects.get media"
		default:
			r.Kind = "objects." + strings.ToLower(r.Method)
		}
	default:
		r.Bucket, r.Key, _ = strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		r.Kind = r.Method + " object"
	}
}

// nameInBody is the object's name in the first part of a multipart upload.
func nameInBody(contentType string, body []byte) string {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return ""
	}
	part, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).NextPart()
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(part)
	var object struct{ Name string }
	if err != nil || json.Unmarshal(text, &object) != nil {
		return ""
	}
	return object.Name
}

func (r *Request) parseAzure() {
	_, rest, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/") // the account
	r.Bucket, r.Key, _ = strings.Cut(rest, "/")
	comp := r.Query.Get("comp")
	switch {
	case r.Key == "" && comp == "list":
		r.Key, r.Kind = r.Query.Get("prefix"), "ListBlobs"
	case r.Key == "":
		r.Kind = r.Method + " container"
	case r.Method == http.MethodPut && comp == "block":
		r.Kind = "PutBlock"
	case r.Method == http.MethodPut && comp == "blocklist":
		r.Kind = "PutBlockList"
	case r.Method == http.MethodPut && comp == "":
		r.Kind = "PutBlob"
	case r.Method == http.MethodGet:
		r.Kind = "GetBlob"
	case r.Method == http.MethodHead:
		r.Kind = "GetBlobProperties"
	case r.Method == http.MethodDelete:
		r.Kind = "DeleteBlob"
	default:
		r.Kind = r.Method + " " + comp
	}
}
