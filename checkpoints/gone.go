package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/deltafold/deltafold/deltatable"
)

const (
	propRetention    = "delta.deletedFileRetentionDuration"
	defaultRetention = 7 * 24 * time.Hour
)

// lawfullyGone says whether a file of version v that is not there may have been removed by
// vacuum, and how that is known: a later version took it out of the table, and either a
// vacuum is in the log after that or the retention has passed. (PROTOCOL.md "Add File and
// Remove File": a file may be deleted once its log tombstone has expired.)
func (a *auditor) lawfullyGone(ctx context.Context, fe *fileError, v deltatable.Version) (string, bool) {
	var missing *deltatable.MissingFileError
	if !errors.As(fe.err, &missing) {
		return "", false
	}
	latest, err := a.table.Snapshot(ctx)
	if err != nil {
		return "", false
	}
	if _, live := latest.File(fe.key); live {
		return "", false
	}
	var by *deltatable.Entry
	for w := v; w <= latest.Version(); w++ {
		e, err := a.table.Entry(ctx, w)
		if err != nil {
			continue // cleaned up, or a matter for its own version's audit
		}
		if by != nil && e.Info != nil && strings.HasPrefix(e.Info.Operation, "VACUUM") {
			return fmt.Sprintf("%s; version %d took it out of the table, version %d is a vacuum", fe.Error(), by.Version, w), true
		}
		for r := range e.Removes() {
			if r.Key() == fe.key {
				by = e
			}
		}
	}
	if by == nil {
		return "", false
	}
	keep := retention(latest)
	if a.o.Now().Sub(by.Timestamp) < keep {
		return "", false
	}
	return fmt.Sprintf("%s; version %d took it out of the table, longer ago than the retention of %s", fe.Error(), by.Version, keep), true
}

// retention reads delta.deletedFileRetentionDuration, "interval 2 weeks"; the default where
// it is absent or not understood.
func retention(s *deltatable.Snapshot) time.Duration {
	text, ok := s.Property(propRetention)
	if !ok {
		return defaultRetention
	}
	units := map[string]time.Duration{
		"week": 7 * 24 * time.Hour, "day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute, "second": time.Second,
		"millisecond": time.Millisecond, "microsecond": time.Microsecond,
	}
	words := strings.Fields(strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), "interval"))
	var total time.Duration
	for i := 0; i+1 < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i], 10, 32)
		unit, known := units[strings.TrimSuffix(words[i+1], "s")]
		if err != nil || !known {
			return defaultRetention
		}
		total += time.Duration(n) * unit
	}
	if len(words) == 0 || len(words)%2 != 0 {
		return defaultRetention
	}
	return total
}
