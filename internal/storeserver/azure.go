package storeserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Azurite's account and key are the same everywhere and published with it.
const (
	azureAccount = "devstoreaccount1"
	azureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

var azure = &kind{
	name:       "azure",
	scheme:     "azblob",
	command:    azurite,
	arguments:  memoryArguments,
	makeBucket: makeContainer,
	describe: func(_ *process, s *Server) {
		s.AccessKey, s.SecretKey = azureAccount, azureKey
		s.Endpoint += "/" + azureAccount
	},
	environment: func(s *Server) []string {
		host, _, _ := strings.Cut(strings.TrimPrefix(s.Endpoint, "http://"), "/")
		return []string{
			"AZURE_STORAGE_ACCOUNT=" + s.AccessKey,
			"AZURE_STORAGE_KEY=" + s.SecretKey,
			"AZURE_STORAGE_CONNECTION_STRING=",
			"AZURE_STORAGE_SAS_TOKEN=",
			"AZURE_STORAGE_DOMAIN=" + host,
			"AZURE_STORAGE_PROTOCOL=http",
			"AZURE_STORAGE_IS_LOCAL_EMULATOR=true",
		}
	},
}

// memoryArguments are those of servers that keep all in memory, unless the server
// is a test's own: it may be started again.
func memoryArguments(p *process) []string {
	var args []string
	if p.own {
		args = append(args, "--root", p.root)
	}
	if p.address != "" {
		args = append(args, "--listen", p.address)
	}
	return args
}

// azurite finds what .ci/servers installed.
func azurite() ([]string, error) {
	tools, err := toolsFolder()
	if err != nil {
		return nil, err
	}
	if errFolder != nil {
		return nil, errFolder
	}
	marker := filepath.Join(folder, "azurite", ".installed")
	if _, err := os.Stat(marker); err != nil {
		return nil, fmt.Errorf("%s is missing; .ci/servers installs it", marker)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, errors.New("node is not installed")
	}
	return []string{node, filepath.Join(tools, "azurite", "main.js"), filepath.Join(folder, "azurite", "node_modules")}, nil
}

// makeContainer: Create Container, signed with Shared Key.
func makeContainer(p *process, name string) error {
	path := "/" + azureAccount + "/" + name
	r, err := http.NewRequest(http.MethodPut, "http://"+p.address+path+"?restype=container", nil)
	if err != nil {
		return err
	}
	const version = "2021-12-02"
	date := time.Now().UTC().Format(http.TimeFormat) //nolint:forbidigo // the server compares it with its own clock
	r.Header.Set("x-ms-date", date)
	r.Header.Set("x-ms-version", version)
	// Verb, eleven empty headers, those of x-ms, then the resource: account, path
	// (which repeats the account on Azurite), query.
	text := "PUT\n\n\n\n\n\n\n\n\n\n\n\n" +
		"x-ms-date:" + date + "\nx-ms-version:" + version + "\n" +
		"/" + azureAccount + path + "\nrestype:container"
	key, err := base64.StdEncoding.DecodeString(azureKey)
	if err != nil {
		return err
	}
	sign := hmac.New(sha256.New, key)
	sign.Write([]byte(text))
	r.Header.Set("Authorization", "SharedKey "+azureAccount+":"+base64.StdEncoding.EncodeToString(sign.Sum(nil)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	return answered(answer, http.StatusCreated)
}
