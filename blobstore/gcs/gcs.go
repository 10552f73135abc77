// Package gcs makes package blobstore open buckets of Google Cloud Storage. It is
// linked in by importing it:
//
//	import _ "github.com/deltafold/deltafold/blobstore/gcs"
//
// # Locations
//
//	gs://bucket                 the whole bucket
//	gs://bucket/some/prefix     the objects whose keys begin with some/prefix/
//
// gcs:// is the same. The prefix is taken as it is written, nothing is decoded. A
// '?' begins parameters, as gocloud.dev spells them: anonymous=true, access_id=-
// (the same) and universe_domain=…. Others are refused by name. They are not part
// of the store's canonical URL.
//
// Credentials are Google's application default ones (GOOGLE_APPLICATION_CREDENTIALS,
// gcloud's login, the machine's account). The server is Config.Endpoint, else
// STORAGE_EMULATOR_HOST, which needs no credentials, else Google's. Credentials go
// over plain http to this machine only.
//
// # How it works
//
// The JSON API, in single requests without a retry of the SDK: package remote
// repeats them. The client of cloud.google.com/go/storage is not used: it repeats
// the parts of uploads and reopens broken downloads whatever its retry policy, and
// hides which of the object and the bucket is missing. CRC32C of what is written
// and of what is read whole is checked.
//
// # Caveats
//
// A resumable upload takes its parts one after another. One that is neither
// completed nor aborted is never visible, costs nothing and expires after a week.
// Objects that are stored with Content-Encoding: gzip are refused. Times of
// objects are in whole seconds, as reads tell them.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"gocloud.dev/gcp"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

func init() {
	blobstore.Register("gs", open)
	blobstore.Register("gcs", open)
}

// open is a [blobstore.Opener].
func open(ctx context.Context, u *url.URL, c *blobstore.Config) (blobstore.Driver, string, error) {
	p, err := parse(u, c.Endpoint, os.Getenv("STORAGE_EMULATOR_HOST"))
	if err != nil {
		return nil, "", err
	}
	b, err := p.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	canonical := strings.TrimSuffix("gs://"+p.bucket+"/"+p.prefix, "/")
	return remote.New(b, &remote.Options{
		Prefix: p.prefix, Endpoint: b.base, Bucket: p.bucket,
		// Google decides ifGenerationMatch=0; another server has to show it.
		Conditional:        p.endpoint == "",
		UnsafeSingleWriter: c.UnsafeSingleWriter, Stats: c.Stats, Sleep: c.Sleep,
	}), canonical, nil
}

// place is what a location says.
type place struct {
	bucket, prefix string // prefix is "" or ends in '/'
	endpoint       string // without a slash at its end; "" is Google's
	anonymous      bool
	emulator       bool // anonymous, because of the environment
	universe       string
}

// parse reads a location. emulator is the value of STORAGE_EMULATOR_HOST: a host,
// with or without a scheme.
func parse(u *url.URL, endpoint, emulator string) (*place, error) {
	switch {
	case u.User != nil:
		return nil, errors.New("credentials in the URL are not taken: use the environment")
	case u.Host == "" || strings.Contains(u.Host, ":"):
		return nil, errors.New("the URL names no bucket: write gs://bucket/prefix")
	}
	prefix, err := remote.PrefixOf(u)
	if err != nil {
		return nil, err
	}
	p := &place{bucket: u.Host, prefix: prefix, emulator: emulator != ""}
	if endpoint == "" && emulator != "" {
		endpoint = emulator
		if !strings.Contains(endpoint, "://") {
			endpoint = "http://" + endpoint
		}
	}
	if p.endpoint, err = checkEndpoint(endpoint); err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("parameters cannot be parsed")
	}
	for name, values := range query {
		if len(values) != 1 {
			return nil, fmt.Errorf("parameter %q is given %d times", name, len(values))
		}
		if err := p.parameter(name, values[0]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// parameter takes a parameter as gocloud.dev spells it. NB: values are never
// repeated in errors.
func (p *place) parameter(name, value string) error {
	flag := func(on *bool) error {
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("parameter %q is neither true nor false", name)
		}
		*on = *on || b
		return nil
	}
	switch name {
	case "anonymous":
		return flag(&p.anonymous)
	case "universe_domain":
		p.universe = value
		return nil
	case "access_id":
		if value != "-" {
			return errors.New(`parameter "access_id" is for signed URLs, which are not used here; access_id=- is anonymous`)
		}
		p.anonymous = true
		return nil
	case "private_key_path":
		return errors.New(`parameter "private_key_path" is for signed URLs, which are not used here: set GOOGLE_APPLICATION_CREDENTIALS`)
	case "grpc", "zonal":
		on := false
		if err := flag(&on); err != nil || !on {
			return err
		}
		return fmt.Errorf("parameter %q: the gRPC API is not used here", name)
	}
	return fmt.Errorf("parameter %q is not known", name)
}

// checkEndpoint returns a server's URL without the slash at its end.
func checkEndpoint(endpoint string) (string, error) {
	if endpoint == "" {
		return "", nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("endpoint is not of the form https://host or http://host:port")
	}
	return strings.TrimRight(endpoint, "/"), nil
}

// connect finds credentials and makes the client. It sends nothing to the store.
func (p *place) connect(ctx context.Context) (*bucket, error) {
	client := gcp.NewAnonymousHTTPClient(transport())
	universe := p.universe
	if !p.anonymous && !p.emulator {
		if err := p.mayAuthenticate(); err != nil {
			return nil, err
		}
		// The source of tokens outlives the opening: it must not end with it.
		creds, err := gcp.DefaultCredentialsWithParams(context.WithoutCancel(ctx), google.CredentialsParams{UniverseDomain: universe})
		if err != nil {
			return nil, fmt.Errorf("find credentials (anonymous=true needs none): %s", remote.Scrub(err.Error()))
		}
		if client, err = gcp.NewHTTPClient(transport(), gcp.CredentialsTokenSource(creds)); err != nil {
			return nil, err
		}
		if universe == "" {
			// Without an answer it is Google's own, as for the SDK.
			universe, _ = creds.GetUniverseDomain()
		}
	}
	base := p.endpoint
	if base == "" {
		if universe == "" {
			universe = "googleapis.com"
		}
		base = "https://storage." + universe
	}
	// Sessions of uploads answer 308, which is no redirection here, and nothing
	// else that is asked for here is redirected.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	raw, err := storage.NewService(ctx, option.WithHTTPClient(&client.Client), option.WithEndpoint(base+"/storage/v1/"))
	if err != nil {
		return nil, errors.New(remote.Scrub(err.Error()))
	}
	raw.UserAgent = "deltafold"
	return &bucket{raw: raw, client: &client.Client, base: base, name: p.bucket}, nil
}

// mayAuthenticate refuses to send credentials where others can read them.
func (p *place) mayAuthenticate() error {
	u, err := url.Parse(p.endpoint)
	if err != nil || u.Scheme != "http" {
		return err
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("credentials are not sent over plain http: use https, or anonymous=true")
}

// transport is the machine's, with room for several readers at once.
func transport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = 64
	// A connection of HTTP/2 that died without a word would be used again by every
	// repeat of a request.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second}
	return t
}
