package pipeline

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// open opens the store at a path or URL. It is the only place where a run opens
// one, so that all have the run's configuration. The first parameters that are
// given for a bucket hold for all of the run in that bucket: the outcomes of a
// table, and files that it names by absolute paths, are reached as the table is.
func (e *Env) open(ctx context.Context, location string) (*blobstore.Store, error) {
	if err := CheckLocation(location); err != nil {
		return nil, err
	}
	location = e.withParameters(location)
	if e.Open != nil {
		return e.Open(ctx, location)
	}
	return blobstore.OpenWith(ctx, location, e.Store)
}

func (e *Env) withParameters(location string) string {
	scheme, authority, _, ok := urlParts(location)
	if !ok {
		return location
	}
	bucket := deltatable.CanonicalLocation(scheme + "://" + authority)
	e.mu.Lock()
	defer e.mu.Unlock()
	base, query := cutQuery(location)
	if query == "" {
		return base + e.parameters[bucket]
	}
	if e.parameters == nil {
		e.parameters = map[string]string{}
	}
	if _, have := e.parameters[bucket]; !have {
		e.parameters[bucket] = query
	}
	return location
}

// CheckLocation refuses a URL that holds credentials, without repeating them:
// locations are printed, recorded in outcomes and kept in tables.
func CheckLocation(location string) error {
	scheme, authority, query, ok := urlParts(location)
	if !ok {
		return nil
	}
	const where = "credentials come from the environment or from the cloud's own files, never from a URL"
	user, _, hasUser := strings.Cut(authority, "@")
	// The container of abfss://container@account is no user.
	if hasUser && !strings.HasPrefix(scheme, "abfs") && !strings.HasPrefix(scheme, "wasb") || strings.Contains(user, ":") && (hasUser || isCloud(scheme)) {
		return usage("the %s URL holds a user or a password: %s", scheme, where)
	}
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if isSecret(name) {
			return usage("the %s URL holds a secret (parameter %s): %s", scheme, name, where)
		}
	}
	return nil
}

// urlParts splits scheme://authority/path?query of a URL of an object store, or
// of one of the web. Folders and memory have no such parts: their names are
// taken as they are.
func urlParts(location string) (scheme, authority, query string, ok bool) {
	scheme, rest, ok := strings.Cut(location, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme == "file" || scheme == "mem" || strings.ContainsAny(scheme, "/\\ ") {
		return "", "", "", false
	}
	rest, query, _ = strings.Cut(rest, "?")
	authority, _, _ = strings.Cut(rest, "/")
	// A secret key may hold slashes, which end what a URL takes for its authority.
	if at := strings.LastIndexByte(rest, '@'); at > len(authority) && strings.Contains(authority, ":") {
		authority = rest[:at+1]
	}
	return scheme, authority, query, true
}

// isCloud tells schemes whose authority is a bucket, which has no port.
func isCloud(scheme string) bool { return scheme != "http" && scheme != "https" }

// isSecret tells the names under which query parameters carry credentials.
func isSecret(name string) bool {
	if strings.HasSuffix(strings.ToLower(name), "_file") { // such as web_identity_token_file
		return false
	}
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(name))
	if slices.Contains([]string{"sig", "sas", "key", "se", "sp", "sv"}, name) {
		return true
	}
	for _, part := range []string{"secret", "password", "passwd", "token", "signature", "credential", "accesskey", "accountkey", "apikey", "awskey", "sastoken"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// cutQuery splits the parameters, '?' included, from a URL of an object store.
func cutQuery(location string) (base, query string) {
	if _, _, _, ok := urlParts(location); !ok {
		return location, ""
	}
	if i := strings.IndexByte(location, '?'); i >= 0 {
		return location[:i], location[i:]
	}
	return location, ""
}

// isURL tells a URL from a path.
func isURL(location string) bool { return strings.Contains(location, "://") }

// isLocal says whether a location is on this machine: a path, or a file URL.
func isLocal(location string) bool {
	scheme, _, ok := strings.Cut(location, "://")
	return !ok || strings.EqualFold(scheme, "file")
}

// splitURL splits the URL of a file into the store that it lies in and its key
// there. Of an object store that is the bucket, with the parameters; of others the
// folder, which stays a URL. Only in file URLs is anything decoded.
func splitURL(location string) (store, key string, err error) {
	base, query := cutQuery(location)
	scheme, authority, _, ok := urlParts(location)
	if ok {
		key = base[len(scheme)+len("://")+len(authority):]
		store, key = base[:len(base)-len(key)]+query, strings.TrimPrefix(key, "/")
	} else {
		store, key = path.Split(base)
		if trimmed := strings.TrimSuffix(store, "/"); !strings.HasSuffix(trimmed, "//") { // file:/// stays the root
			store = trimmed
		}
	}
	if strings.HasPrefix(strings.ToLower(location), "file:") {
		key, err = url.PathUnescape(key)
	}
	if err == nil && (key == "" || strings.HasSuffix(key, "/")) {
		err = fmt.Errorf("%s names no file", base)
	}
	return store, key, err
}

// OutcomesURL is where the outcomes of a state table are: at the property, by
// default beside the table. A table that is a whole bucket has no beside: its
// outcomes lie below it, under a name that readers of the table pass over.
func OutcomesURL(state, property string) string {
	if property != "" {
		return property
	}
	base, query := cutQuery(state)
	base = strings.TrimRight(base, "/")
	if _, authority, _, ok := urlParts(state); ok && strings.HasSuffix(base, "://"+authority) {
		return base + "/_outcomes" + query
	}
	return base + "-outcomes" + query
}

// notShared says what is wrong with a location of outcomes that only this machine
// could find again, as the table is used from others, or that says how to get
// there: a table must not send its readers' requests, and with them a session's
// token, to a server of its choice. "" if nothing is.
func notShared(state, property string) string {
	if _, query := cutQuery(property); query != "" {
		return fmt.Sprintf("property %s of the table is a URL with parameters, which are not taken from a table: set it without", change.PropOutcomes)
	}
	if property == "" || property == change.OutcomesNone || isLocal(state) || !isLocal(property) {
		return ""
	}
	return fmt.Sprintf("property %s is %s, a folder of this machine, and the table is at %s: give a URL, or none", change.PropOutcomes, property, state)
}
