package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/storage/v1"

	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// quantum is what every request of a resumable upload but the last must send a
// multiple of, in bytes.
const quantum = 256 << 10

// upload is a resumable upload: an object that grows at its end, invisible until
// its length is told. Each part waits for the one before it, so that parts may be
// started at once, in ascending order.
//
// A part that is no multiple of quantum can only be the last: it is kept, and
// sent by Complete together with the object's length.
type upload struct {
	b   *bucket
	key string
	uri string // NB: lets in whoever knows it, never in an error

	mu      sync.Mutex
	turn    chan struct{} // closed when next changes
	next    int           // the number of the part whose turn it is
	sending sync.Mutex    // one request at a time; guards what follows
	at      int64         // where the next part begins
	sum     uint32        // CRC32C of all before at
	last    []byte        // the part that is kept for Complete
	unsure  bool          // a request failed: the server knows how far it got
}

// StartUpload is [remote.Bucket]'s.
func (b *bucket) StartUpload(ctx context.Context, key string) (remote.Upload, error) {
	query := url.Values{"uploadType": {"resumable"}, "name": {key}}
	address := b.base + "/upload/storage/v1/b/" + url.PathEscape(b.name) + "/o?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		return nil, unanswered(err)
	}
	req.Header.Set("X-Upload-Content-Type", contentType)
	res, err := b.send(req)
	if err != nil {
		return nil, plain.failed(err)
	}
	defer res.Body.Close()
	if err := googleapi.CheckResponse(res); err != nil {
		return nil, plain.failed(err)
	}
	uri := res.Header.Get("Location")
	if err := checkSession(b.base, uri); err != nil {
		return nil, err
	}
	return &upload{b: b, key: key, uri: uri, turn: make(chan struct{}), next: 1}, nil
}

// checkSession checks the address that the server at base gave to an upload
// session: requests to it carry the credentials' token.
func checkSession(base, uri string) error {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return refusal("the store answers without the address of an upload session")
	}
	if u.Scheme == "http" && strings.HasPrefix(strings.ToLower(base), "https:") {
		return refusal("the store leads an upload from https to plain http")
	}
	return nil
}

func (b *bucket) send(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", b.raw.UserAgent)
	return b.client.Do(req)
}

// Part is [remote.Upload]'s.
func (u *upload) Part(ctx context.Context, number int, data []byte) error {
	if err := u.await(ctx, number); err != nil {
		return err
	}
	u.sending.Lock()
	defer u.sending.Unlock()
	switch {
	case u.last != nil:
		return refusal("internal error: part %d follows one of an odd size", number)
	case len(data)%quantum != 0:
		u.last = data
	default:
		if _, err := u.push(ctx, data, -1); err != nil {
			return err
		}
		u.advance(data)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next++
	close(u.turn)
	u.turn = make(chan struct{})
	return nil
}

// await returns when it is the part's turn.
func (u *upload) await(ctx context.Context, number int) error {
	for {
		u.mu.Lock()
		next, turn := u.next, u.turn
		u.mu.Unlock()
		if number == next {
			return nil
		}
		if number < next {
			return refusal("internal error: part %d was taken already", number)
		}
		select {
		case <-ctx.Done():
			return unanswered(ctx.Err())
		case <-turn:
		}
	}
}

func (u *upload) advance(data []byte) {
	u.sum = crc32.Update(u.sum, castagnoli, data)
	u.at += int64(len(data))
}

// Complete is [remote.Upload]'s.
func (u *upload) Complete(ctx context.Context, parts int) error {
	if err := u.await(ctx, parts+1); err != nil {
		return err
	}
	u.sending.Lock()
	defer u.sending.Unlock()
	total := u.at + int64(len(u.last))
	o, err := u.push(ctx, u.last, total)
	if err != nil {
		return err
	}
	return stored(o, encode(crc32.Update(u.sum, castagnoli, u.last)))
}

// push sends data, which begins at u.at; total is the object's length if this is
// the end, else -1. After a failure it asks first what has arrived. The object is
// that of a completed upload.
func (u *upload) push(ctx context.Context, data []byte, total int64) (*storage.Object, error) {
	sent := int64(0)
	if u.unsure {
		have, o, err := u.ask(ctx, total)
		if err != nil || o != nil {
			return o, err
		}
		if sent = have - u.at; sent < 0 || sent > int64(len(data)) {
			return nil, refusal("the upload session has %d bytes, not between %d and %d", have, u.at, u.at+int64(len(data)))
		}
	}
	for {
		if total < 0 && sent == int64(len(data)) {
			u.unsure = false
			return nil, nil
		}
		u.unsure = true
		have, o, err := u.request(ctx, data[sent:], u.span(sent, data, total), total)
		if err != nil {
			return nil, err
		}
		if o != nil {
			u.unsure = false
			return o, nil
		}
		// The server may keep less than it was sent, but must get on.
		if have -= u.at; have <= sent || have > int64(len(data)) {
			return nil, &remote.Error{Err: fmt.Errorf("the upload session stands at byte %d of the part", have)}
		}
		sent = have
	}
}

// span is a Content-Range of data from byte sent on.
func (u *upload) span(sent int64, data []byte, total int64) string {
	first, end := u.at+sent, u.at+int64(len(data))
	length := "*"
	if total >= 0 {
		length = strconv.FormatInt(total, 10)
	}
	if first == end {
		return "bytes */" + length
	}
	return fmt.Sprintf("bytes %d-%d/%s", first, end-1, length)
}

// ask finds out how many bytes have arrived. NB: with the whole length in it, the
// question completes an upload that has all of them.
func (u *upload) ask(ctx context.Context, total int64) (int64, *storage.Object, error) {
	length := "*"
	if total >= 0 {
		length = strconv.FormatInt(total, 10)
	}
	return u.request(ctx, nil, "bytes */"+length, total)
}

// request is one request to the session: how many bytes have arrived, or the
// object if the upload is complete.
func (u *upload) request(ctx context.Context, data []byte, span string, total int64) (int64, *storage.Object, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.uri, bytes.NewReader(data))
	if err != nil {
		return 0, nil, unanswered(err)
	}
	req.Header.Set("Content-Range", span)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("X-Guploader-No-308", "yes") // 200 and another header, as the SDK asks for
	if total >= 0 {
		req.Header.Set("X-Goog-Hash", "crc32c="+encode(crc32.Update(u.sum, castagnoli, u.last)))
	}
	res, err := u.b.send(req)
	if err != nil {
		return 0, nil, session.failed(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusPermanentRedirect || res.Header.Get("X-Http-Status-Code-Override") == "308" {
		_, _ = io.Copy(io.Discard, res.Body) // so that the connection can be used again
		have, err := arrived(res.Header.Get("Range"))
		return have, nil, err
	}
	if err := googleapi.CheckResponse(res); err != nil {
		return 0, nil, session.failed(err)
	}
	o := new(storage.Object)
	if err := json.NewDecoder(res.Body).Decode(o); err != nil {
		return 0, nil, &remote.Error{Err: fmt.Errorf("the answer to an upload is cut off: %s", remote.Scrub(err.Error()))}
	}
	if total < 0 {
		return 0, nil, refusal("the upload session ended before its last part")
	}
	return 0, o, nil
}

// arrived parses "bytes=0-last"; no header is no byte.
func arrived(v string) (int64, error) {
	if v == "" {
		return 0, nil
	}
	text, ok := strings.CutPrefix(v, "bytes=0-")
	last, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || last < 0 {
		return 0, &remote.Error{Err: errors.New("the upload session does not tell what has arrived")}
	}
	return last + 1, nil
}

// Abort is [remote.Upload]'s. GCS answers 499 to a session that was cancelled.
func (u *upload) Abort(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, u.uri, http.NoBody)
	if err != nil {
		return unanswered(err)
	}
	res, err := u.b.send(req)
	if err != nil {
		return session.failed(err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case 499, http.StatusNotFound, http.StatusGone: // cancelled now or before
		return nil
	}
	if err := googleapi.CheckResponse(res); err != nil {
		return session.failed(err)
	}
	return nil
}
