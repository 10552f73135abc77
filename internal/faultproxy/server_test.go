package faultproxy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/deltafold/deltafold/internal/faultproxy"
	"github.com/deltafold/deltafold/internal/storeserver"
)

// TestSignaturesPassAServer has a server that checks signatures see requests that
// were signed for the proxy's host, as they came and with a condition taken out.
func TestSignaturesPassAServer(t *testing.T) {
	s := storeserver.S3(t)
	p := faultproxy.New(t, s.Endpoint, &faultproxy.Options{Credentials: &faultproxy.Credentials{AccessKey: s.AccessKey, SecretKey: s.SecretKey}})
	at := time.Now()
	send := func(method, key, body string, header ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, p.URL()+"/"+s.Bucket+"/"+key, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		sum := sha256.Sum256([]byte(body))
		r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
		signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
		who := aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey}
		if err := signer.SignHTTP(t.Context(), who, r, hex.EncodeToString(sum[:]), "s3", s.Region, at); err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	const key = "a%20b/100%25/%C3%A4"
	if status, text := send("PUT", key, "first", "If-None-Match", "*"); status != 200 {
		t.Fatalf("put: %d %s", status, text)
	}
	if status, text := send("PUT", key, "second", "If-None-Match", "*"); status != 412 {
		t.Errorf("put again: %d %s, want 412", status, text)
	}
	if status, text := send("GET", key+"?partNumber=1", ""); status != 200 && status != 206 || text != "first" {
		t.Errorf("get: %d %s", status, text)
	}
	p.SetDecide(faultproxy.IgnoreConditions)
	if status, text := send("PUT", key, "third", "If-None-Match", "*"); status != 200 {
		t.Errorf("put with the condition ignored: %d %s", status, text)
	}
	p.SetDecide(faultproxy.SkewedClock(time.Now, time.Hour))
	if status, text := send("GET", key, ""); status != 403 || !strings.Contains(text, "RequestTimeTooSkewed") {
		t.Errorf("get with a skewed clock: %d %s", status, text)
	}
	at = at.Add(time.Hour)
	if status, text := send("GET", key, ""); status != 200 || text != "third" {
		t.Errorf("get with a corrected clock: %d %s", status, text)
	}
}
