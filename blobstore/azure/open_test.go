package azure

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
)

func at(t *testing.T, location string) (*place, error) {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return parse(u)
}

func TestLocations(t *testing.T) {
	type found struct{ Container, Prefix, Account, Service, Canonical string }
	env := func(name string) string {
		return map[string]string{"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_STORAGE_KEY": key}[name]
	}
	t.Setenv("AZURE_STORAGE_IS_LOCAL_EMULATOR", "")
	t.Setenv("AZURE_STORAGE_DOMAIN", "")
	t.Setenv("AZURE_STORAGE_PROTOCOL", "")
	const service = "https://acc.blob.core.windows.net"
	for location, want := range map[string]found{
		"azblob://c":       {"c", "", "acc", service, "azblob://c"},
		"az://c/a b/%41//": {"c", "a b/%41/", "acc", service, "azblob://c/a b/%41"},
		"azblob://c?domain=blob.core.usgovcloudapi.net":                 {"c", "", "acc", "https://acc.blob.core.usgovcloudapi.net", "azblob://c"},
		"azblob://c?localemu=true&protocol=http&domain=127.0.0.1:10000": {"c", "", "acc", "http://127.0.0.1:10000/acc", "azblob://c"},
		"azblob://c?anonymous=true&storage_account=other":               {"c", "", "other", "https://other.blob.core.windows.net", "azblob://c"},
		"abfss://c@acc.dfs.core.windows.net/p":                          {"c", "p/", "acc", service, "abfss://c@acc.dfs.core.windows.net/p"},
		"abfs://c@ACC.dfs.core.windows.net/":                            {"c", "", "acc", service, "abfss://c@acc.dfs.core.windows.net"},
		"wasbs://c@acc.blob.core.windows.net/p/q":                       {"c", "p/q/", "acc", service, "abfss://c@acc.blob.core.windows.net/p/q"},
		"wasb://c@acc.blob.core.chinacloudapi.cn":                       {"c", "", "acc", "https://acc.blob.core.chinacloudapi.cn", "abfss://c@acc.blob.core.chinacloudapi.cn"},
		"abfss://c@other.dfs.core.windows.net?anonymous=1":              {"c", "", "other", "https://other.blob.core.windows.net", "abfss://c@other.dfs.core.windows.net"},
	} {
		p, err := at(t, location)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		a, err := findAccount(t.Context(), p, "", env)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		if diff := cmp.Diff(want, found{p.container, p.prefix, a.name, a.service, p.canonical()}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", location, diff)
		}
		if again, err := at(t, p.canonical()); err != nil || again.prefix != p.prefix || again.container != p.container {
			t.Errorf("%s: canonical %s is another place: %+v, %v", location, p.canonical(), again, err)
		}
	}
}

// What is not taken is refused by name; values are not repeated, as they may be
// secrets.
func TestLocationsRefused(t *testing.T) {
	for location, want := range map[string]string{
		"azblob://":                                            "names no container",
		"azblob://c:1":                                         "names no container",
		"azblob://c@acc.dfs.core.windows.net":                  "credentials in the URL",
		"az://user:s3cr3t@c":                                   "credentials in the URL",
		"azblob://c/a//b":                                      "part",
		"azblob://c/a#b":                                       "'#'",
		"azblob://c?" + sasToken:                               "is not known",
		"azblob://c?anonymous=s3cr3t":                          "anonymous",
		"azblob://c?domain=a&domain=b":                         "domain",
		"azblob://c?a=%zz":                                     "parameters",
		"abfss://c/p":                                          "abfss://container@account",
		"abfss://c:s3cr3t@acc.dfs.core.windows.net":            "credentials in the URL",
		"abfss://c@acc.file.core.windows.net":                  "abfss://container@account",
		"abfss://c@acc":                                        "abfss://container@account",
		"abfss://c@acc.dfs.core.windows.net?domain=d":          "domain",
		"abfss://c@acc.dfs.core.windows.net?protocol=http":     "",
		"wasb://c@acc.blob.core.windows.net:80/":               "wasb://container@account",
		"adl://acc.azuredatalakestore.net/":                    "abfss://",
		"abfss://c@acc.dfs.core.windows.net?storage_account=x": "storage_account",
	} {
		if _, err := at(t, location); want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t")) {
			t.Errorf("%s: %v, want %q", location, err, want)
		}
	}
}

func TestAccounts(t *testing.T) {
	for _, name := range []string{"IS_LOCAL_EMULATOR", "DOMAIN", "PROTOCOL", "IS_CDN", "ACCOUNT", "SAS_TOKEN"} {
		t.Setenv("AZURE_STORAGE_"+name, "")
	}
	conn := "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=" + key + ";EndpointSuffix=core.windows.net"
	const azurite = "http://127.0.0.1:10000/devstoreaccount1"
	for what, c := range map[string]struct {
		location, endpoint string
		env                map[string]string
		want               account
		fails              string
	}{
		"key":              {"azblob://c", "", map[string]string{"ACCOUNT": "acc", "KEY": key, "SAS_TOKEN": sasToken}, account{service: "https://acc.blob.core.windows.net", name: "acc", key: key}, ""},
		"sas":              {"azblob://c", "", map[string]string{"ACCOUNT": "acc", "SAS_TOKEN": "?" + sasToken}, account{service: "https://acc.blob.core.windows.net", name: "acc", sas: sasToken}, ""},
		"chain":            {"azblob://c", "", map[string]string{"ACCOUNT": "acc"}, account{service: "https://acc.blob.core.windows.net", name: "acc"}, ""},
		"chain, abfss":     {"abfss://c@x.dfs.core.windows.net", "", nil, account{service: "https://x.blob.core.windows.net", name: "x"}, ""},
		"connection":       {"azblob://c", "", map[string]string{"CONNECTION_STRING": conn}, account{service: "https://acc.blob.core.windows.net", name: "acc", key: key}, ""},
		"connection 2":     {"azblob://c", "", map[string]string{"CONNECTION_STRING": "BlobEndpoint=https://h.example/;SharedAccessSignature=" + sasToken}, account{service: "https://h.example", sas: sasToken}, ""},
		"both":             {"azblob://c", azurite, map[string]string{"CONNECTION_STRING": conn}, account{service: azurite, name: "acc", key: key}, ""},
		"endpoint":         {"abfss://c@devstoreaccount1.dfs.core.windows.net", azurite + "/", map[string]string{"ACCOUNT": "devstoreaccount1", "KEY": key}, account{service: azurite, name: "devstoreaccount1", key: key}, ""},
		"anonymous":        {"azblob://c?anonymous=true", "", map[string]string{"ACCOUNT": "acc", "KEY": key}, account{service: "https://acc.blob.core.windows.net", name: "acc", anonymous: true}, ""},
		"other account":    {"abfss://c@x.dfs.core.windows.net", "", map[string]string{"ACCOUNT": "acc", "KEY": key}, account{}, "credentials of the environment are for acc"},
		"other, sas":       {"azblob://c?storage_account=x", "", map[string]string{"ACCOUNT": "acc", "SAS_TOKEN": sasToken}, account{}, "credentials of the environment are for acc"},
		"sas of whom":      {"abfss://c@x.dfs.core.windows.net", "", map[string]string{"SAS_TOKEN": sasToken}, account{}, "set AZURE_STORAGE_ACCOUNT"},
		"key of whom":      {"azblob://c", "", map[string]string{"KEY": key}, account{}, "set AZURE_STORAGE_ACCOUNT"},
		"nothing":          {"azblob://c", "", nil, account{}, "set AZURE_STORAGE_ACCOUNT"},
		"sas over http":    {"azblob://c", "http://h.example/acc", map[string]string{"ACCOUNT": "acc", "SAS_TOKEN": sasToken}, account{}, "plain http"},
		"tokens over http": {"azblob://c", "http://127.0.0.1:1/acc", map[string]string{"ACCOUNT": "acc"}, account{}, "plain http"},
		"no server":        {"azblob://c", "h.example", map[string]string{"ACCOUNT": "acc", "KEY": key}, account{}, "service's URL"},
		"sas in server":    {"azblob://c", "https://h.example?" + sasToken, map[string]string{"ACCOUNT": "acc"}, account{}, "service's URL"},
		"domain":           {"azblob://c?domain=h.example", "", map[string]string{"ACCOUNT": "acc", "SAS_TOKEN": sasToken}, account{}, "not allowed"},
		"bad string":       {"azblob://c", "", map[string]string{"CONNECTION_STRING": "s3cr3t"}, account{}, "connection string"},
		"bad string 2":     {"azblob://c", "", map[string]string{"CONNECTION_STRING": "AccountKey=s3cr3t"}, account{}, "AccountName"},
		"parameters":       {"azblob://c?cdn=true", "", map[string]string{"CONNECTION_STRING": conn}, account{}, "connection string names the server"},
	} {
		t.Run(what, func(t *testing.T) {
			p, err := at(t, c.location)
			if err != nil {
				t.Fatal(err)
			}
			a, err := findAccount(t.Context(), p, c.endpoint, func(name string) string { return c.env[strings.TrimPrefix(name, "AZURE_STORAGE_")] })
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("%v, want %q", err, c.fails)
				}
				wantNoSecrets(t, what, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, *a, cmp.AllowUnexported(account{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if strings.Contains(a.service, "s3cr3t") {
				t.Errorf("the service's URL has the token in it: %s", a.service)
			}
		})
	}
}

// Keys that cannot be decoded are not shown.
func TestOpenRefuses(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "acc")
	t.Setenv("AZURE_STORAGE_KEY", "s3cr3t!")
	_, err := blobstore.Open(t.Context(), "azblob://c")
	if err == nil || !strings.Contains(err.Error(), "account key") {
		t.Errorf("got %v", err)
	}
	wantNoSecrets(t, "open", err)
}

func TestIsAzure(t *testing.T) {
	for service, want := range map[string]bool{
		"https://acc.blob.core.windows.net": true, "https://acc.blob.core.chinacloudapi.cn": true,
		"http://acc.blob.core.windows.net": false, "http://127.0.0.1:10000/acc": false,
		"https://core.windows.net.example": false, "https://evilcore.windows.net": false,
	} {
		if got := isAzure(service); got != want {
			t.Errorf("%s: %t", service, got)
		}
	}
}
