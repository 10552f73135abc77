// Package azure keeps a store in a container of Azure Blob Storage, Data Lake
// Storage Gen2 included. Importing it makes [blobstore.Open] take its URLs:
//
//	azblob://container/some/prefix      in the account of the environment
//	az://container/some/prefix          the same
//	abfss://container@account.dfs.core.windows.net/some/prefix
//	wasbs://container@account.blob.core.windows.net/some/prefix
//
// abfs:// and wasb:// are abfss:// and wasbs://: all speak https. The prefix is
// taken as it is written, nothing is decoded. adl:// is refused: its service was
// closed.
//
// # Parameters
//
// As gocloud.dev spells them, after a '?': storage_account, domain, protocol, cdn
// and localemu; and anonymous=true, for public containers. Others are refused.
// They are not part of the store's canonical URL.
//
// # Credentials
//
// As gocloud.dev looks for them: AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY,
// AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_CONNECTION_STRING (or
// AZURE_STORAGEBLOB_CONNECTIONSTRING), else the default chain of azidentity
// (environment, workload and managed identity, the login of az and azd). A key or
// a token is for one account: a URL that names another one is refused.
//
// # Server
//
// The service URL of [blobstore.Config].Endpoint (with the account's name in its
// path where the server wants it, as Azurite does), of the connection string, or
// the one that gocloud.dev makes of the parameters and of
// AZURE_STORAGE_{DOMAIN,PROTOCOL,IS_CDN,IS_LOCAL_EMULATOR}. Plain http is spoken
// only where it is written; tokens are not sent over it.
//
// # How it works
//
// gocloud.dev finds the account, azblob makes single requests, package remote
// repeats them. gocloud.dev's driver is not used: it rewrites '%', '?', '#' and
// others in keys. Objects are created by If-None-Match: *, written in parts as
// blocks of a block blob, and listed by startFrom.
//
// # Caveats
//
// There is no range from the end: it costs a second request where the size is not
// known. Blocks of a write that was given up cannot be deleted; they are not
// visible, and Azure drops them after a week. Blobs that stand for folders
// (hdi_isfolder) are not objects. An account with a hierarchical namespace lists
// folder by folder, which is not the order of bytes: its listings of more than one
// page (5,000 objects) are read to the end and sorted in memory. Keys with a '\',
// of which Azure makes a '/', and with characters that XML cannot hold are refused.
// Azure advises against parts of keys that end in '.'.
package azure

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

func init() {
	for _, scheme := range []string{"azblob", "az", "abfss", "abfs", "wasbs", "wasb", "adl"} {
		blobstore.Register(scheme, open)
	}
}

// open is a [blobstore.Opener]. It makes no request.
func open(ctx context.Context, u *url.URL, c *blobstore.Config) (blobstore.Driver, string, error) {
	p, err := parse(u)
	if err != nil {
		return nil, "", err
	}
	a, err := findAccount(ctx, p, c.Endpoint, os.Getenv)
	if err != nil {
		return nil, "", err
	}
	client, err := a.connect(p.container)
	if err != nil {
		return nil, "", err
	}
	b := &bucket{client: client, stats: c.Stats}
	return remote.New(b, &remote.Options{
		Prefix: p.prefix, Endpoint: a.service, Bucket: p.container,
		// Azure decides If-None-Match; another server has to show it.
		Conditional:        isAzure(a.service),
		UnsafeSingleWriter: c.UnsafeSingleWriter, Stats: c.Stats, Sleep: c.Sleep,
	}), p.canonical(), nil
}

// place is what a location says.
type place struct {
	container, prefix string // prefix is "" or ends in '/'
	account, domain   string // "" if the URL does not name them
	anonymous         bool
	parameters        url.Values // gocloud's
	authority         string     // container@host, if the URL was of that form
}

func parse(u *url.URL) (*place, error) {
	if u.Scheme == "adl" {
		return nil, errors.New("adl:// is Data Lake Storage Gen1, which Azure closed: write abfss:// for Gen2")
	}
	prefix, err := remote.PrefixOf(u)
	if err != nil {
		return nil, err
	}
	p := &place{prefix: prefix, container: u.Host}
	switch u.Scheme {
	case "abfss", "abfs", "wasbs", "wasb":
		if err := p.ofAccount(u); err != nil {
			return nil, err
		}
	default:
		if u.User != nil {
			return nil, errors.New("credentials in the URL are not taken: use the environment; an account is named as in abfss://container@account.dfs.core.windows.net")
		}
	}
	if p.container == "" || strings.Contains(p.container, ":") {
		return nil, errors.New("the URL names no container: write azblob://container/prefix")
	}
	return p, p.query(u.RawQuery)
}

// ofAccount reads container@account.dfs.domain, which Hadoop came up with.
func (p *place) ofAccount(u *url.URL) error {
	form := errors.New("the URL is not of the form " + u.Scheme + "://container@account.dfs.core.windows.net/prefix")
	if u.User == nil || u.Port() != "" {
		return form
	}
	if _, secret := u.User.Password(); secret {
		return errors.New("credentials in the URL are not taken: use the environment")
	}
	account, domain, _ := strings.Cut(strings.ToLower(u.Hostname()), ".")
	service, suffix, _ := strings.Cut(domain, ".")
	if account == "" || suffix == "" || service != "dfs" && service != "blob" {
		return form
	}
	// The blob service has the same objects as that of Data Lake Storage.
	p.container, p.account, p.domain = u.User.Username(), account, "blob."+suffix
	p.authority = p.container + "@" + strings.ToLower(u.Hostname())
	return nil
}

// query takes the parameters apart. NB: values are never repeated in errors.
func (p *place) query(raw string) error {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("parameters cannot be parsed")
	}
	p.parameters = url.Values{}
	for name, values := range q {
		if len(values) != 1 {
			return errors.New("parameter " + name + " is given more than once")
		}
		switch name {
		case "anonymous":
			switch values[0] {
			case "true", "1":
				p.anonymous = true
			case "false", "0":
			default:
				return errors.New("parameter anonymous is neither true nor false")
			}
		case "storage_account", "domain", "protocol", "cdn", "localemu":
			if p.account != "" && (name == "storage_account" || name == "domain") {
				return errors.New("parameter " + name + ": the URL names it already")
			}
			p.parameters.Set(name, values[0])
		default:
			return errors.New("parameter " + name + " is not known")
		}
	}
	if p.account == "" {
		p.account = p.parameters.Get("storage_account")
	}
	return nil
}

// canonical is the store's URL without parameters. It is of the account's form if
// the location was.
func (p *place) canonical() string {
	if p.authority != "" {
		return strings.TrimSuffix("abfss://"+p.authority+"/"+p.prefix, "/")
	}
	return strings.TrimSuffix("azblob://"+p.container+"/"+p.prefix, "/")
}
