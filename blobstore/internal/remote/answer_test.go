package remote

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "-1": 0, "soon": 0, "100000": time.Hour} {
		if got := RetryAfter(http.Header{"Retry-After": {value}}); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// Real clients against servers that give no answer: the class, what is said, and
// that no URL is.
func TestUnanswered(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(plain.Close)
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // bad certificates, by design
	tls.StartTLS()
	t.Cleanup(tls.Close)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeout(t.Context(), time.Nanosecond)
	defer stop()
	<-late.Done()
	for _, c := range []struct {
		name, url, text string
		ctx             context.Context //nolint:containedctx // a case
		class           Class
		is              error
	}{
		{name: "nobody listens", url: "http://127.0.0.1:1", class: Throttled, text: "cannot connect"},
		{name: "plain http", url: strings.Replace(plain.URL, "http:", "https:", 1), class: Refused, text: "does not speak https"},
		{name: "unknown certificate", url: tls.URL, class: Refused, text: "the server's certificate"},
		{name: "hung up", url: plain.URL, class: Unclear, text: "no answer"},
		{name: "cancelled", url: plain.URL, ctx: cancelled, class: Unclear, is: context.Canceled},
		{name: "too late", url: plain.URL, ctx: late, class: Unclear, is: context.DeadlineExceeded},
	} {
		ctx := c.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/k?sig=hidden", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			t.Fatalf("%s: an answer", c.name)
		}
		e := Unanswered(err)
		if e.Class != c.class || !strings.Contains(e.Error(), c.text) || strings.Contains(e.Error(), "sig=") || c.is != nil && !errors.Is(e, c.is) {
			t.Errorf("%s: class %d, %v", c.name, e.Class, e)
		}
	}
	if e := Unanswered(errors.New("broken at ?sig=hidden")); e.Class != Unclear || strings.Contains(e.Error(), "hidden") {
		t.Errorf("class %d, %v", e.Class, e)
	}
}
