package deltalog

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/deltafold/deltafold/blobstore"
)

// readHint returns the version that _last_checkpoint names. It is only a hint:
// anything wrong with it is false (PROTOCOL.md "Last Checkpoint File"). The only
// error is that the store's server cannot be connected to: what follows would be
// in vain, and wait as long for that once more.
func readHint(ctx context.Context, store *blobstore.Store) (Version, bool, error) {
	data, err := store.Get(ctx, lastCheckpointKey)
	if err != nil {
		if unreachable(err) {
			return 0, false, err
		}
		return 0, false, nil
	}
	v, ok := parseHint(data)
	return v, ok, nil
}

// unreachable tells that the store's server could not be connected to.
func unreachable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func parseHint(data []byte) (Version, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if dec.PeekKind() != '{' {
		return 0, false
	}
	if _, err := dec.ReadToken(); err != nil {
		return 0, false
	}
	var v Version
	found := false
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return 0, false
		}
		if name.String() != "version" || dec.PeekKind() != '0' {
			if dec.SkipValue() != nil {
				return 0, false
			}
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < 0 {
			return 0, false
		}
		v, found = Version(n), true
	}
	return v, found
}
