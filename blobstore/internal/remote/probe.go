package remote

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// decision is what is known of a store's conditional puts.
type decision uint8

const (
	undecided      decision = iota // not known: nothing may be created
	decidedByStore                 // the store refuses to overwrite
	decidedAlone                   // it does not, and the user vouches for being alone
)

// probePrefix begins the names of probe objects. Readers of a log take nothing
// of it: the names of log entries begin with digits, and vacuum leaves names that
// begin with '.' or '_' alone (PROTOCOL.md "Delta Log Entries").
const probePrefix = logFolder + ".deltafold-probe-"

// rememberedFor is how long a store that honours conditions is believed to.
const rememberedFor = 30 * 24 * time.Hour

// decide finds out whether the store decides conditional puts: it is known to,
// it was seen to, or it does so now. No clear answer is an error.
func (s *store) decide(ctx context.Context) (decision, error) {
	if s.o.Conditional || s.remembered() {
		return decidedByStore, nil
	}
	detail, err := s.probe(ctx)
	switch {
	case err != nil:
		return undecided, fmt.Errorf("find out whether the store honours conditional puts: %w", err)
	case detail == "":
		s.remember()
		return decidedByStore, nil
	case s.o.UnsafeSingleWriter:
		return decidedAlone, nil
	}
	return undecided, &driver.NoConditionError{Endpoint: s.o.Endpoint, Bucket: s.o.Bucket, Detail: detail}
}

// probe creates an object twice, reads it and deletes it. detail tells what a
// store did that does not honour the condition. It finds stores that ignore the
// condition, not stores that check it and write in two steps.
func (s *store) probe(ctx context.Context) (detail string, err error) {
	key := probePrefix + rand.Text()
	first, second := []byte("deltafold: first "+key), []byte("deltafold: second "+key)
	create := func(data []byte) error {
		return s.putting(data).run(ctx, func(ctx context.Context, _ func()) error {
			return s.put(ctx, key, data, IfAbsent)
		})
	}
	defer func() {
		// Left behind, it is in nobody's way: the probe's answer counts.
		ctx, cancel := s.detached(ctx)
		defer cancel()
		_ = s.Delete(ctx, key)
	}()
	// An attempt that was not answered may have been the one that created it.
	if err := errorOf(create(first)); err != nil {
		if e := asError(err); e.Class == Refused && e.Status == 501 {
			return "it does not know the condition", nil
		}
		return "", err
	}
	again := create(second)
	if err := errorOf(again); err != nil {
		return "", err
	}
	there, err := s.Read(ctx, key, 0, -1)
	switch {
	case errors.Is(err, driver.ErrNotFound): // NB: says nothing of the caller's object
		return "", fmt.Errorf("the object %s is not there after it was created", key)
	case err != nil:
		return "", err
	case !exists(again):
		return "a second put was not refused", nil
	case string(there) != string(first):
		return "a second put was refused and written all the same", nil
	}
	return "", nil
}

// tidyFor is how long whoever ended ctx waits at most for what must be tidied up.
const tidyFor = 10 * time.Second

// detached returns a context for what must be tidied up, also after ctx has
// ended, bounded in time.
func (s *store) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := s.o.RetryFor
	if ctx.Err() != nil {
		limit = min(limit, tidyFor)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

const memoryHead = "deltafold conditional-put 1"

// memory is the file that remembers the store; "" if there is no folder for it.
func (s *store) memory() string {
	if s.o.Memory == "" {
		return ""
	}
	return filepath.Join(s.o.Memory, fmt.Sprintf("%.16x", sha256.Sum256([]byte(s.o.Endpoint+"\n"+s.o.Bucket))))
}

// remembered tells whether the store was seen to honour conditions. Anything
// unexpected in the file is a no.
func (s *store) remembered() bool {
	path := s.memory()
	if path == "" {
		return false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 5 || lines[0] != memoryHead || lines[1] != s.o.Endpoint || lines[2] != s.o.Bucket || lines[4] != "" {
		return false
	}
	seen, err := time.Parse(time.RFC3339, lines[3])
	if err != nil {
		return false
	}
	age := s.o.Now().Sub(seen)
	return age >= -time.Hour && age < rememberedFor
}

// remember writes the file at once or not at all. A store that cannot be
// remembered is probed again by the next process.
func (s *store) remember() {
	path := s.memory()
	if path == "" {
		return
	}
	text := strings.Join([]string{memoryHead, s.o.Endpoint, s.o.Bucket, s.o.Now().UTC().Format(time.RFC3339), ""}, "\n")
	_ = writeFile(path, text) // as said above
}

func writeFile(path, text string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
