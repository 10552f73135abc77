package azure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob/azureblob"

	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// account is a server and the credentials for it: a key, a SAS token, nothing
// (anonymous), or else those of azidentity.
type account struct {
	service   string // URL without a slash at its end, without secrets
	name      string
	key, sas  string
	anonymous bool
}

// findAccount looks for the account as gocloud.dev does: key, SAS token,
// connection string, in this order. endpoint is "" or the service's URL.
func findAccount(ctx context.Context, p *place, endpoint string, env func(string) string) (*account, error) {
	a := &account{
		name: env("AZURE_STORAGE_ACCOUNT"), key: env("AZURE_STORAGE_KEY"),
		sas: strings.TrimPrefix(env("AZURE_STORAGE_SAS_TOKEN"), "?"),
	}
	switch {
	case a.name != "" && a.key != "":
		a.sas = "" // the key goes first
	case a.sas != "":
		a.key = ""
	case a.key == "":
		text := env("AZURE_STORAGE_CONNECTION_STRING")
		if text == "" {
			text = env("AZURE_STORAGEBLOB_CONNECTIONSTRING")
		}
		if text != "" {
			if err := a.connectionString(text); err != nil {
				return nil, err
			}
		}
	}
	if p.anonymous {
		a.key, a.sas, a.anonymous = "", "", true
	}
	if err := a.belongsTo(p); err != nil {
		return nil, err
	}
	if err := a.locate(ctx, p, endpoint); err != nil {
		return nil, err
	}
	return a, a.checkService()
}

// belongsTo refuses to send what is for one account to another: a SAS token lets
// in whoever gets it.
func (a *account) belongsTo(p *place) error {
	secret := a.key != "" || a.sas != ""
	if secret && a.name == "" && (p.account != "" || a.service == "") {
		return errors.New("the environment has a key or SAS token and does not say of which account: set AZURE_STORAGE_ACCOUNT")
	}
	if secret && p.account != "" && p.account != a.name {
		return fmt.Errorf("the URL names the account %s, the credentials of the environment are for %s", p.account, a.name)
	}
	if p.account != "" {
		a.name = p.account
	}
	return nil
}

// locate finds the service's URL.
func (a *account) locate(ctx context.Context, p *place, endpoint string) error {
	switch {
	case endpoint != "":
		a.service = endpoint
		return nil
	case a.service != "":
		if len(p.parameters) > 0 {
			return errors.New("the connection string names the server: the URL's parameters cannot")
		}
		return nil
	}
	o := azureblob.NewDefaultServiceURLOptions()
	o.SASToken = "" // added to requests, not to what errors name
	o.AccountName = a.name
	if p.domain != "" {
		o.StorageDomain, o.Protocol, o.IsCDN, o.IsLocalEmulator = p.domain, "https", false, false
	}
	opener := azureblob.URLOpener{
		ServiceURLOptions: *o,
		MakeClient: func(service azureblob.ServiceURL, name azureblob.ContainerName) (*container.Client, error) {
			a.service = string(service)
			return container.NewClientWithNoCredential(a.service+"/"+string(name), nil)
		},
	}
	b, err := opener.OpenBucketURL(ctx, &url.URL{Scheme: "azblob", Host: p.container, RawQuery: p.parameters.Encode()})
	if err != nil {
		if o.AccountName == "" {
			return errors.New("no account: set AZURE_STORAGE_ACCOUNT, or write abfss://container@account.dfs.core.windows.net/prefix")
		}
		return errors.New(remote.Scrub(err.Error()))
	}
	return b.Close()
}

// connectionString reads name=value pairs between semicolons, as the portal gives
// them. NB: nothing of them is repeated in errors.
func (a *account) connectionString(text string) error {
	values := map[string]string{"DefaultEndpointsProtocol": "https", "EndpointSuffix": "core.windows.net"}
	for pair := range strings.SplitSeq(strings.TrimRight(text, "; "), ";") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return errors.New("the connection string is not of the form Name=value;Name=value")
		}
		values[strings.TrimSpace(name)] = value
	}
	if name := values["AccountName"]; name != "" {
		a.name = name
	}
	a.key, a.sas = values["AccountKey"], strings.TrimPrefix(values["SharedAccessSignature"], "?")
	if a.key == "" && a.sas == "" {
		return errors.New("the connection string has neither AccountKey nor SharedAccessSignature")
	}
	if a.key != "" && a.name == "" {
		return errors.New("the connection string has an AccountKey and no AccountName")
	}
	if a.key != "" {
		a.sas = ""
	}
	a.service = values["BlobEndpoint"]
	if a.service == "" {
		if a.name == "" {
			return errors.New("the connection string has neither BlobEndpoint nor AccountName")
		}
		a.service = values["DefaultEndpointsProtocol"] + "://" + a.name + ".blob." + values["EndpointSuffix"]
	}
	return nil
}

// checkService checks the service's URL, and that no token goes over plain http: a
// SAS token to another machine, any other at all. A key is never sent: it signs.
func (a *account) checkService() error {
	a.service = strings.TrimRight(a.service, "/")
	u, err := url.Parse(a.service)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the service's URL is not of the form https://account.blob.core.windows.net or http://host:port/account")
	}
	if u.Scheme == "http" && a.key == "" && !a.anonymous && (a.sas == "" || !loopback(u.Hostname())) {
		return errors.New("tokens are not sent over plain http: use https, or an account's key")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// isAzure tells Microsoft's own service from others that speak its protocol.
func isAzure(service string) bool {
	u, err := url.Parse(service)
	if err != nil || u.Scheme != "https" {
		return false
	}
	for _, domain := range []string{"core.windows.net", "core.usgovcloudapi.net", "core.chinacloudapi.cn", "storage.azure.net"} {
		if strings.HasSuffix(u.Hostname(), "."+domain) {
			return true
		}
	}
	return false
}

// connect makes the client of a container. It sends nothing.
func (a *account) connect(name string) (*container.Client, error) {
	address := a.service + "/" + url.PathEscape(name)
	o := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry:     policy.RetryOptions{MaxRetries: -1}, // package remote repeats
		Telemetry: policy.TelemetryOptions{ApplicationID: "deltafold"},
		Transport: transport(),
	}}
	client, err := a.client(address, o)
	if err != nil {
		return nil, errors.New(a.clean(err.Error()))
	}
	return client, nil
}

func (a *account) client(address string, o *container.ClientOptions) (*container.Client, error) {
	switch {
	case a.key != "":
		key, err := container.NewSharedKeyCredential(a.name, a.key)
		if err != nil {
			return nil, fmt.Errorf("account key: %w", err)
		}
		return container.NewClientWithSharedKeyCredential(address, key, o)
	case a.sas != "":
		return container.NewClientWithNoCredential(address+"?"+a.sas, o)
	case a.anonymous:
		return container.NewClientWithNoCredential(address, o)
	}
	chain, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("find credentials: %w", err)
	}
	return container.NewClient(address, tokens{chain}, o)
}

// clean cuts the account's own secrets out of a text, and what looks like one.
func (a *account) clean(text string) string {
	for _, secret := range []string{a.key, a.sas} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[cut]")
		}
	}
	return remote.Scrub(text)
}

// tokens marks errors of who gives out tokens: they come before any request.
type tokens struct{ azcore.TokenCredential }

// GetToken is [azcore.TokenCredential]'s.
func (t tokens) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := t.TokenCredential.GetToken(ctx, o)
	if err != nil && ctx.Err() == nil {
		return token, &tokenError{err}
	}
	return token, err
}

type tokenError struct{ err error }

func (e *tokenError) Error() string { return "no token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// NonRetriable has the SDK give up at once.
func (e *tokenError) NonRetriable() {}

// transport is the machine's, with room for several readers at once. Bodies come
// as they are stored, and nothing is redirected, least of all a SAS token.
func transport() *http.Client {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConnsPerHost = 64
		t.DisableCompression = true
		// A connection of HTTP/2 that died without a word would be used again by every
		// repeat of a request.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second}
		c.Transport = t
	}
	return c
}
