package s3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

func TestLocations(t *testing.T) {
	settings(t)
	t.Setenv("AWS_REGION", "us-east-1")
	for location, want := range map[string]string{
		"s3://bkt":                    "s3://bkt",
		"s3://bkt/":                   "s3://bkt",
		"s3a://bkt/t":                 "s3://bkt/t",
		"s3n://bkt/t/":                "s3://bkt/t",
		"S3://bkt/a/b":                "s3://bkt/a/b",
		"s3://bkt/a b/%41=c+d":        "s3://bkt/a b/%41=c+d",
		"s3://bkt/ä?region=eu-west-1": "s3://bkt/ä",
		"s3://my_bucket.x/t":          "s3://my_bucket.x/t",
	} {
		s, err := blobstore.Open(t.Context(), location)
		if err != nil || s.URL() != want {
			t.Errorf("%s: %v", location, err)
			continue
		}
		if again, err := blobstore.Open(t.Context(), s.URL()); err != nil || again.URL() != want {
			t.Errorf("%s does not open itself: %v", want, err)
		}
	}
	for location, want := range map[string]string{
		"s3:///t":                                       "names no bucket",
		"s3://bkt/a//b":                                 `part ""`,
		"s3://bkt//a":                                   `part ""`,
		"s3://bkt/a/../b":                               `part ".."`,
		"s3://bkt/a#b":                                  "'#'",
		"s3://bkt/100%":                                 "escape",
		"s3://b--usw2-az1--x-s3/t":                      "directory bucket",
		"s3://key:topsecret@bkt/t":                      "credentials in the URL",
		"s3://bkt/t?reigon=x":                           `"reigon"`,
		"s3://bkt/t?secret_access_key=topsecret":        `"secret_access_key"`,
		"s3://bkt/t?region=a&region=b":                  "region is given 2 times",
		"s3://bkt/t?anonymous=maybe":                    "true or false",
		"s3://bkt/t?ssetype=rot13":                      "AES256",
		"s3://bkt/t?response_checksum_validation=never": "when_required",
		"s3://bkt/t?endpoint=localhost:9000":            "http://host",
		"s3://bkt/t?endpoint=ftp://x":                   "https://host",
		"s3://bkt/t?endpoint=https://u:topsecret@x":     "credentials in the endpoint",
		"s3://bkt/t?role=admin":                         "ARN",
		"s3://bkt/t?role_session_name=x":                `"role"`,
	} {
		s, err := blobstore.Open(t.Context(), location)
		switch {
		case err == nil:
			t.Errorf("%s opened as %s", location, s.URL())
		case !strings.Contains(err.Error(), want):
			t.Errorf("%s: error without %s: %v", location, want, err)
		case strings.Contains(err.Error(), "topsecret"):
			t.Errorf("%s: error with the secret: %v", location, err)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", "localhost:9000")
	if _, err := blobstore.Open(t.Context(), "s3://bkt"); err == nil || !strings.Contains(err.Error(), "http://host") {
		t.Errorf("endpoint of the environment: %v", err)
	}
}

// seen is what a request looks like to the server.
type seen struct {
	Host, Path, Query, Authorization, Token, Payer, SSE, Key string
}

// looked makes a put with the settings of env and the parameters q, and gives
// back where it went to and with what. Requests to other hosts than this one do
// not leave it.
func looked(t *testing.T, env map[string]string, c *blobstore.Config, q string) seen {
	t.Helper()
	settings(t)
	t.Setenv("AWS_REGION", "eu-west-3")
	for k, v := range env {
		t.Setenv(k, v)
	}
	params, err := url.ParseQuery(q)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parse(params, c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBucket(t.Context(), "bkt", p)
	if err != nil {
		t.Fatal(err)
	}
	var got seen
	b.cfg.HTTPClient = client(func(r *http.Request) *http.Response {
		auth, _, _ := strings.Cut(r.Header.Get("Authorization"), ", SignedHeaders")
		got = seen{
			Host: r.URL.Scheme + "://" + r.URL.Host, Path: r.URL.Path, Query: r.URL.RawQuery, Authorization: auth,
			Token: r.Header.Get("X-Amz-Security-Token"), Payer: r.Header.Get("X-Amz-Request-Payer"),
			SSE: r.Header.Get("X-Amz-Server-Side-Encryption"), Key: r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"),
		}
		return respond(200, nil)
	})
	b.known = p.client(b.cfg, b.known.Options().Region)
	if err := b.Put(t.Context(), "a/b", []byte("x"), remote.Always); err != nil {
		t.Fatal(err)
	}
	if i := strings.Index(got.Authorization, "/2"); i >= 0 { // the date
		got.Authorization = got.Authorization[:i] + got.Authorization[i+len("/20261201"):]
	}
	return got
}

// client is an HTTP client without a network.
type client func(*http.Request) *http.Response

func (c client) Do(r *http.Request) (*http.Response, error) { return c(r), nil }

func respond(status int, header map[string]string) *http.Response {
	h := http.Header{}
	for k, v := range header {
		h.Set(k, v)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(nil))}
}

func TestWhereRequestsGo(t *testing.T) {
	const signed = "AWS4-HMAC-SHA256 Credential=AKIDTEST/eu-west-3/s3/aws4_request"
	const query = "x-id=PutObject"
	for _, c := range []struct {
		name string
		env  map[string]string
		c    blobstore.Config
		q    string
		want seen
	}{
		{name: "Amazon", want: seen{Host: "https://bkt.s3.eu-west-3.amazonaws.com", Path: "/a/b", Authorization: signed}},
		{name: "Amazon, path style", q: "use_path_style=true", want: seen{Host: "https://s3.eu-west-3.amazonaws.com", Path: "/bkt/a/b", Authorization: signed}},
		{name: "Amazon, fips and dualstack", q: "fips=true&dualstack=true", want: seen{Host: "https://bkt.s3-fips.dualstack.eu-west-3.amazonaws.com", Path: "/a/b", Authorization: signed}},
		{name: "AWS_ENDPOINT_URL", env: map[string]string{"AWS_ENDPOINT_URL": "http://h:9/"}, want: seen{Host: "http://h:9", Path: "/bkt/a/b", Authorization: signed}},
		{name: "AWS_ENDPOINT_URL_S3 before AWS_ENDPOINT_URL", env: map[string]string{"AWS_ENDPOINT_URL": "http://h:9", "AWS_ENDPOINT_URL_S3": "http://s3:9"}, want: seen{Host: "http://s3:9", Path: "/bkt/a/b", Authorization: signed}},
		{name: "Config before the environment", env: map[string]string{"AWS_ENDPOINT_URL_S3": "http://h:9"}, c: blobstore.Config{Endpoint: "https://c/"}, want: seen{Host: "https://c", Path: "/bkt/a/b", Authorization: signed}},
		{name: "URL before Config", c: blobstore.Config{Endpoint: "https://c"}, q: "endpoint=https://u//", want: seen{Host: "https://u", Path: "/bkt/a/b", Authorization: signed}},
		{name: "an endpoint with a path", c: blobstore.Config{Endpoint: "https://c/s3/"}, want: seen{Host: "https://c", Path: "/s3/bkt/a/b", Authorization: signed}},
		{name: "virtual hosts by URL", c: blobstore.Config{Endpoint: "https://c"}, q: "use_path_style=false", want: seen{Host: "https://bkt.c", Path: "/a/b", Authorization: signed}},
		{name: "virtual hosts by environment", env: map[string]string{"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}, c: blobstore.Config{Endpoint: "https://c"}, want: seen{Host: "https://bkt.c", Path: "/a/b", Authorization: signed}},
		{name: "anonymous by URL", q: "anonymous=true", want: seen{Host: "https://bkt.s3.eu-west-3.amazonaws.com", Path: "/a/b"}},
		{name: "anonymous by environment", env: map[string]string{"AWS_SKIP_SIGNATURE": "true"}, want: seen{Host: "https://bkt.s3.eu-west-3.amazonaws.com", Path: "/a/b"}},
		{name: "session token", env: map[string]string{"AWS_SESSION_TOKEN": "tok"}, want: seen{Host: "https://bkt.s3.eu-west-3.amazonaws.com", Path: "/a/b", Authorization: signed, Token: "tok"}},
		{name: "region by URL", q: "region=us-west-2", want: seen{Host: "https://bkt.s3.us-west-2.amazonaws.com", Path: "/a/b", Authorization: strings.Replace(signed, "eu-west-3", "us-west-2", 1)}},
		{name: "region of other endpoints", env: map[string]string{"AWS_REGION": ""}, c: blobstore.Config{Endpoint: "https://c"}, want: seen{Host: "https://c", Path: "/bkt/a/b", Authorization: strings.Replace(signed, "eu-west-3", "us-east-1", 1)}},
		{name: "requester pays", q: "requester_pays=true", want: seen{Host: "https://bkt.s3.eu-west-3.amazonaws.com", Path: "/a/b", Authorization: signed, Payer: "requester"}},
		{name: "KMS", q: "ssetype=AWS:KMS&kmskeyid=key-1", want: seen{Host: "https://bkt.s3.eu-west-3.amazonaws.com", Path: "/a/b", Authorization: signed, SSE: "aws:kms", Key: "key-1"}},
		{name: "AES256 by environment", env: map[string]string{"AWS_SERVER_SIDE_ENCRYPTION": "AES256"}, want: seen{Host: "https://bkt.s3.eu-west-3.amazonaws.com", Path: "/a/b", Authorization: signed, SSE: "AES256"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Query = query
			if diff := cmp.Diff(c.want, looked(t, c.env, &c.c, c.q)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProfile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config":      "[profile lake]\nregion = ap-south-1\nendpoint_url = http://profile:9/\n",
		"credentials": "[lake]\naws_access_key_id = AKIDLAKE\naws_secret_access_key = x\n",
	} {
		writeFile(t, dir+"/"+name, text)
	}
	env := map[string]string{
		"AWS_CONFIG_FILE": dir + "/config", "AWS_SHARED_CREDENTIALS_FILE": dir + "/credentials", "AWS_REGION": "",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
	}
	want := seen{
		Host: "http://profile:9", Path: "/bkt/a/b", Query: "x-id=PutObject",
		Authorization: "AWS4-HMAC-SHA256 Credential=AKIDLAKE/ap-south-1/s3/aws4_request",
	}
	if diff := cmp.Diff(want, looked(t, env, &blobstore.Config{}, "profile=lake")); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// Amazon is asked for the region where nothing tells it, whatever the answer's
// status; a region that turns out wrong is left.
func TestRegion(t *testing.T) {
	for _, c := range []struct {
		name   string
		region string // of the environment
		head   int    // status of HeadBucket; 0 if it is not to come
		told   string
		want   string // hosts, in order
		err    string
	}{
		{"told with success", "", 200, "eu-north-1", "s3.us-east-1 s3.eu-north-1", ""},
		{"told with a redirect", "", 301, "eu-north-1", "s3.us-east-1 s3.eu-north-1", ""},
		{"told with a bad request", "", 400, "eu-north-1", "s3.us-east-1 s3.eu-north-1", ""},
		{"told with a refusal", "", 403, "eu-north-1", "s3.us-east-1 s3.eu-north-1", ""},
		{"no bucket", "", 404, "", "s3.us-east-1", "bucket bkt does not exist"},
		{"refused and not told", "", 403, "", "s3.us-east-1", "access denied"},
		{"known", "eu-north-1", 0, "", "s3.eu-north-1", ""},
		{"wrong", "us-west-1", 0, "", "s3.us-west-1 s3.eu-north-1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings(t)
			t.Setenv("AWS_REGION", c.region)
			p, err := parse(nil, &blobstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := newBucket(t.Context(), "bkt", p)
			if err != nil {
				t.Fatal(err)
			}
			var hosts []string
			b.cfg.HTTPClient = client(func(r *http.Request) *http.Response {
				host := strings.TrimPrefix(strings.TrimSuffix(r.URL.Host, ".amazonaws.com"), "bkt.")
				hosts = append(hosts, host)
				switch {
				case r.Method == http.MethodHead && (r.URL.Path == "" || r.URL.Path == "/"):
					h := map[string]string{}
					if c.told != "" {
						h[regionHeader] = c.told
					}
					return respond(c.head, h)
				case host != "s3.eu-north-1":
					return respond(301, map[string]string{regionHeader: "eu-north-1"})
				}
				return respond(200, nil)
			})
			if b.known != nil {
				b.known = p.client(b.cfg, c.region)
			}
			err = remote.New(b, nil).Put(t.Context(), "k", nil)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error: %v", err)
			}
			if got := strings.Join(hosts, " "); got != c.want {
				t.Errorf("asked %s, want %s", got, c.want)
			}
		})
	}
}

func TestAmazonIsKnownToHonourConditions(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"": true, "https://s3.eu-west-1.amazonaws.com": true, "https://s3.cn-north-1.amazonaws.com.cn": true,
		"https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com": true,
		"https://s3-fips.us-gov-west-1.amazonaws.com":           true, "https://s3.dualstack.us-west-2.amazonaws.com": true,
		"https://s3-accelerate.amazonaws.com": true, "https://s3.amazonaws.com": true,
		// Others' stores on Amazon's machines and behind its balancers.
		"http://ec2-1-2-3-4.compute-1.amazonaws.com:9000":          false,
		"http://ec2-1-2-3-4.eu-west-1.compute.amazonaws.com:9000":  false,
		"https://ceph-123.us-east-1.elb.amazonaws.com":             false,
		"https://s3-123.eu-west-1.elb.amazonaws.com":               false,
		"https://vpce-1-2.vpce-svc-3.us-east-1.vpce.amazonaws.com": false,
		"https://1a2b3c.execute-api.us-east-1.amazonaws.com":       false,
		"https://amazonaws.com.example.org":                        false, "https://notamazonaws.com": false,
		"https://storage.googleapis.com": false, "http://localhost:9000": false,
	} {
		var p *string
		if endpoint != "" {
			p = &endpoint
		}
		if isAmazon(p) != want {
			t.Errorf("%s: %t", endpoint, !want)
		}
	}
}

// The key to start after has at most few keys between itself and the one wanted.
func TestStartAfter(t *testing.T) {
	for from, want := range map[string]string{
		"":           "",
		"a":          "`\U0010FFFF",
		"k/10":       "k/1/\U0010FFFF",
		"k/":         "k.\U0010FFFF",
		"\x00":       "",
		"a\x00":      "a",
		"ä":          "ã\U0010FFFF",
		"a\xff":      "a",
		"\xff":       "",
		"a\xe4b":     "a",
		"\uFFFD":     "\uFFFC\U0010FFFF",
		"\uE000":     "\uD7FF\U0010FFFF",
		"\U00010000": "\uFFFF\U0010FFFF",
	} {
		got := startAfter(from)
		if got != want || from != "" && got >= from {
			t.Errorf("%q: %q, want %q", from, got, want)
		}
	}
}

func TestListPages(t *testing.T) {
	pages := map[string]string{
		"": `<ListBucketResult><EncodingType>url</EncodingType><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated><NextContinuationToken>n/1</NextContinuationToken>
			<Contents><Key>p/a%01+b</Key><Size>3</Size><ETag>&quot;e1&quot;</ETag><LastModified>2026-11-30T10:00:00.123Z</LastModified></Contents>
			<Contents><Key>p/%25</Key><Size>0</Size></Contents></ListBucketResult>`,
		"n/1": `<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents><Key>p/x%2B+</Key></Contents></ListBucketResult>`,
		"bad": `<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>`,
		"few": `<ListBucketResult><KeyCount>2</KeyCount><Contents><Key>p/x</Key></Contents></ListBucketResult>`,
		"cut": `<ListBucketResult><Contents><Key>p/x</Key></Contents>`,
	}
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("encoding-type") != "url" || r.URL.Query().Get("prefix") != "p/" {
			t.Errorf("query %s", r.URL.RawQuery)
		}
		answer{status: 200, body: pages[r.URL.Query().Get("continuation-token")]}.write(w, r)
	})
	list := func(token string) string {
		page, next, err := b.List(t.Context(), "p/", "", token)
		if err != nil {
			e, _ := errors.AsType[*remote.Error](err)
			return fmt.Sprint("error ", e != nil && e.Class == remote.Unclear)
		}
		text := ""
		for _, info := range page {
			text += fmt.Sprintf("%q %d %s %s; ", info.Key, info.Size, info.ETag, info.ModTime.Format("15:04:05.999"))
		}
		return text + next
	}
	for token, want := range map[string]string{
		"":    `"p/a\x01 b" 3 e1 10:00:00; "p/%" 0  00:00:00; n/1`,
		"n/1": `"p/x%2B+" 0  00:00:00; `,
		"bad": "error true", "few": "error true", "cut": "error true",
	} {
		if got := list(token); got != want {
			t.Errorf("page %q: %s, want %s", token, got, want)
		}
	}
}

func TestMarks(t *testing.T) {
	for key, want := range map[string]bool{
		"_delta_log/.tmp/00000000000000000003.json.2f6cbe3e-6f63-4b32-8c58-0e5b4f6d6d9a": true,
		"_delta_log/.tmp/00000000000000000003.json":                                      false,
		"_delta_log/.tmp/x.json.2f6cbe3e-6f63-4b32-8c58-0e5b4f6d6d9a":                    false,
		"_delta_log/.00000000000000000003.json.2f6cbe3e.tmp":                             false,
	} {
		s, err := blobstore.Open(t.Context(), "mem://"+t.Name()+url.PathEscape(key))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		var d driver.Driver
		s.Wrap(func(below blobstore.Driver) blobstore.Driver {
			d = below
			return below
		})
		err = checkLog(t.Context(), d)
		if e, ok := errors.AsType[*blobstore.LogStoreError](err); ok != want || (err != nil) != want || ok && (e.Key != key || !strings.Contains(err.Error(), "S3DynamoDBLogStore")) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestSSE(t *testing.T) {
	for in, want := range map[string]types.ServerSideEncryption{"aes256": types.ServerSideEncryptionAes256, "aws:kms:dsse": types.ServerSideEncryptionAwsKmsDsse} {
		if got, err := parseSSE(in); got != want || err != nil {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

// A server of a role's credentials, and one of the bucket: gocloud's parameters
// reach the SDK.
func TestAssumedRole(t *testing.T) {
	settings(t)
	var form url.Values
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		form = r.Form
		_, _ = io.WriteString(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>AKIDROLE</AccessKeyId>`+
			`<SecretAccessKey>x</SecretAccessKey><SessionToken>roletoken</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>`+
			`</Credentials></AssumeRoleResult></AssumeRoleResponse>`)
	}))
	defer sts.Close()
	got := looked(t, map[string]string{"AWS_ENDPOINT_URL_STS": sts.URL}, &blobstore.Config{Endpoint: "https://c"},
		"role=arn:aws:iam::1:role/lake&role_session_name=me")
	want := seen{
		Host: "https://c", Path: "/bkt/a/b", Query: "x-id=PutObject", Token: "roletoken",
		Authorization: "AWS4-HMAC-SHA256 Credential=AKIDROLE/eu-west-3/s3/aws4_request",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if form.Get("RoleArn") != "arn:aws:iam::1:role/lake" || form.Get("RoleSessionName") != "me" {
		t.Errorf("asked for %v", form)
	}
}
