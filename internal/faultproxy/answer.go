package faultproxy

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
)

// serve does with the request what its fault has it.
func (e *exchange) serve() {
	switch e.f.Kind {
	case Refuse:
		e.refuse()
		return
	case Reset:
		hangUp(e.w, true)
		return
	case Pass, RefuseAfter, LoseAnswer, ResetBody, ShortBody, ShorterBody, WrongETag, Late:
	}
	resp, err := e.forward()
	if err != nil {
		if e.r.Context().Err() == nil {
			http.Error(e.w, "faultproxy: the server does not answer: "+err.Error(), http.StatusBadGateway)
		}
		return
	}
	defer resp.Body.Close()
	if e.f.Kind == Pass || e.f.Kind == WrongETag {
		e.answer(resp)
		return
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		hangUp(e.w, true)
		return
	}
	switch e.f.Kind {
	case RefuseAfter:
		e.refuse()
	case ResetBody, ShortBody, ShorterBody:
		e.cut(resp, body)
	case LoseAnswer:
		hangUp(e.w, false)
	case Pass, Refuse, Reset, WrongETag, Late: // done above
	}
}

// answer passes the server's answer on.
func (e *exchange) answer(resp *http.Response) {
	e.header(resp)
	if e.f.Kind == WrongETag && resp.Header.Get("Etag") != "" {
		e.w.Header().Set("Etag", `"00000000000000000000000000000000"`)
	}
	e.w.WriteHeader(resp.StatusCode)
	n, err := io.Copy(e.w, &linked{r: resp.Body, l: &e.p.down, ctx: e.r.Context()})
	e.p.counts.received(e.q.Kind, n)
	if err != nil {
		hangUp(e.w, true)
	}
}

func (e *exchange) header(resp *http.Response) {
	maps.Copy(e.w.Header(), resp.Header)
	for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding"} {
		e.w.Header().Del(name)
	}
	if resp.ContentLength >= 0 {
		e.w.Header().Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
}

// cut passes a part of the answer's body on. An answer without a body is lost.
func (e *exchange) cut(resp *http.Response, body []byte) {
	if len(body) == 0 {
		hangUp(e.w, e.f.Kind == ResetBody)
		return
	}
	n := len(body) / 2
	if e.f.Cut != nil {
		n = min(max(e.f.Cut(body), 0), len(body))
	}
	e.header(resp)
	length := len(body)
	if e.f.Kind == ShorterBody {
		length = n
	}
	e.w.Header().Set("Content-Length", strconv.Itoa(length))
	e.w.WriteHeader(resp.StatusCode)
	sent, err := e.w.Write(body[:n])
	e.p.counts.received(e.q.Kind, int64(sent))
	if err == nil && e.f.Kind == ShorterBody {
		return
	}
	http.NewResponseController(e.w).Flush() // its error is no matter: the connection ends in any case
	hangUp(e.w, e.f.Kind == ResetBody)
}

// hangUp ends the connection, by a reset or in good order.
func hangUp(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0) //nolint:errcheck // then it ends in good order
	}
	conn.Close()
}

// refuse answers in the server's stead, in the words of its dialect.
func (e *exchange) refuse() {
	id := fmt.Sprintf("faultproxy-%d", e.q.N)
	h := e.w.Header()
	maps.Copy(h, e.f.Header)
	var body []byte
	switch e.p.o.Dialect {
	case S3:
		h.Set("Content-Type", "application/xml")
		h.Set("X-Amz-Request-Id", id)
		h.Set("X-Amz-Id-2", id)
		body = marshalXML(struct {
			XMLName                 xml.Name `xml:"Error"`
			Code, Message, Resource string
			RequestID               string `xml:"RequestId"`
		}{Code: e.f.Code, Message: e.f.Message, Resource: e.q.Path, RequestID: id})
	case Azure:
		h.Set("Content-Type", "application/xml")
		h.Set("X-Ms-Request-Id", id)
		h.Set("X-Ms-Error-Code", e.f.Code)
		body = marshalXML(struct {
			XMLName       xml.Name `xml:"Error"`
			Code, Message string
		}{Code: e.f.Code, Message: e.f.Message})
	case GCS:
		h.Set("Content-Type", "application/json; charset=UTF-8")
		h.Set("X-Guploader-Uploadid", id)
		type reason struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		}
		var text struct {
			Error struct {
				Code    int      `json:"code"`
				Message string   `json:"message"`
				Errors  []reason `json:"errors"`
			} `json:"error"`
		}
		text.Error.Code, text.Error.Message = e.f.Status, e.f.Message
		text.Error.Errors = []reason{{e.f.Code, e.f.Message}}
		body, _ = json.Marshal(text) // of strings and a number: it cannot fail
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	e.w.WriteHeader(e.f.Status)
	if e.r.Method == http.MethodHead {
		return
	}
	n, _ := e.w.Write(body) // a client that hung up is no concern
	e.p.counts.received(e.q.Kind, int64(n))
}

func marshalXML(v any) []byte {
	body, err := xml.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("faultproxy: internal error: %v", err))
	}
	return append([]byte(xml.Header), body...)
}
