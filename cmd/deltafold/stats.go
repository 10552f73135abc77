package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/deltafold/deltafold/blobstore"
)

// storeFlags are the flags about object stores, which every command has.
type storeFlags struct {
	endpoint     string
	singleWriter bool
	stats        bool
}

// config checks the flags. All stores of the run are opened with it.
func (s *storeFlags) config() (*blobstore.Config, error) {
	c := &blobstore.Config{Endpoint: s.endpoint, UnsafeSingleWriter: s.singleWriter, Stats: &blobstore.Stats{}}
	if s.endpoint == "" {
		return c, nil
	}
	// NB: messages do not repeat the value, which may hold a password.
	u, err := url.Parse(s.endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, usagef("--endpoint is not a URL such as https://host:port or http://host:port")
	case u.User != nil:
		return nil, usagef("--endpoint holds a user or a password: credentials come from the environment or from the cloud's own files")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, usagef("--endpoint has parameters: give https://host:port")
	}
	c.Endpoint = strings.TrimRight(s.endpoint, "/")
	return c, nil
}

// statsJSON is the member stats of a run's object.
type statsJSON struct {
	Requests map[string]int64 `json:"requests"` // by kind, those of 0 too; and their total
	Retries  int64            `json:"retries"`
	Received int64            `json:"bytes_received"` // of objects
	Sent     int64            `json:"bytes_sent"`     // of objects
	Seconds  float64          `json:"seconds"`
}

func (a *app) statsObject() *statsJSON {
	c := a.config.Stats.Counts()
	out := &statsJSON{
		Requests: map[string]int64{"total": c.Total()}, Retries: c.Retries, Received: c.Received, Sent: c.Sent,
		Seconds: a.now().Sub(a.began).Seconds(),
	}
	for kind, n := range c.Requests {
		out.Requests[blobstore.Request(kind).String()] = n
	}
	return out
}

// statsText is the line that --stats prints.
func (a *app) statsText() string {
	c := a.config.Stats.Counts()
	var kinds []string
	for kind, n := range c.Requests {
		kinds = append(kinds, fmt.Sprintf("%s %d", blobstore.Request(kind), n))
	}
	return fmt.Sprintf("%s (%s), %s, %s received, %s sent, %.3f s",
		plural(c.Total(), "request"), strings.Join(kinds, ", "), plural2(c.Retries, "retry", "retries"),
		plural(c.Received, "byte"), plural(c.Sent, "byte"), a.now().Sub(a.began).Seconds())
}

// end prints what waits for the end of the run: the object that gets the
// figures, or their line.
func (a *app) end() error {
	held := a.held
	if a.held = nil; held == nil {
		return nil
	}
	text, err := json.Marshal(a.statsObject())
	if err != nil {
		return err
	}
	held = bytes.TrimSuffix(bytes.TrimRight(held, "\n"), []byte("}"))
	if !bytes.HasSuffix(held, []byte("{")) {
		held = append(held, ',')
	}
	_, err = fmt.Fprintf(a.out, "%s\"stats\":%s}\n", held, text)
	return err
}
