package azure

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

const token = "eyJ-s3cr3t-token"

// identity gives a token, or err.
type identity struct{ err error }

func (i identity) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(time.Hour)}, i.err
}

// Tokens go over https, are refused by the server as what they are, and are in no
// error. (Azurite is run without them.)
func TestTokens(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if got := r.Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("Authorization: %q", got)
		}
		w.Header().Set("X-Ms-Request-Id", requestID)
		status, code := http.StatusForbidden, "AuthorizationPermissionMismatch"
		if strings.HasSuffix(r.URL.Path, "/expired") {
			status, code = http.StatusUnauthorized, "InvalidAuthenticationInfo"
		}
		refuse(w, status, code, "not with "+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	with := func(id identity) *bucket {
		client, err := container.NewClient(server.URL+"/c", tokens{id}, &container.ClientOptions{ClientOptions: azcore.ClientOptions{
			Retry: policy.RetryOptions{MaxRetries: -1}, Transport: server.Client(),
		}})
		if err != nil {
			t.Fatal(err)
		}
		return &bucket{client: client}
	}
	unavailable := &azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: http.StatusServiceUnavailable}}
	for what, c := range map[string]struct {
		b      *bucket
		key    string
		class  remote.Class
		status int
		sent   int64
	}{
		"refused": {with(identity{}), "k", remote.Refused, 403, 1},
		"expired": {with(identity{}), "expired", remote.Expired, 401, 1},
		"none":    {with(identity{errors.New("DefaultAzureCredential: none, token=s3cr3t")}), "k", remote.Refused, 0, 0},
		"not now": {with(identity{unavailable}), "k", remote.Throttled, 503, 0},
	} {
		requests.Store(0)
		err := c.b.Put(t.Context(), c.key, nil, remote.IfAbsent)
		e, ok := errors.AsType[*remote.Error](err)
		if !ok || e.Class != c.class || e.Status != c.status || requests.Load() != c.sent {
			t.Errorf("%s: %v (%+v) after %d requests", what, err, e, requests.Load())
		}
		wantNoSecrets(t, what, err)
	}
}
