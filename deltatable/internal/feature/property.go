package feature

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/deltafold/deltafold/deltatable/internal/action"
)

// Property returns a table property, "" if it is not set. Names match in any case;
// the exact spelling wins.
func Property(md *action.Metadata, name string) string {
	if md == nil {
		return ""
	}
	if v, ok := md.Configuration[name]; ok {
		return v
	}
	for k, v := range md.Configuration {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

func enabled(md *action.Metadata, name string) bool {
	return strings.EqualFold(strings.TrimSpace(Property(md, name)), "true")
}

// Defaults of the table properties, as in Spark (protocol notes 1.13).
const (
	DefaultDeletedFileRetention = 7 * 24 * time.Hour
	DefaultLogRetention         = 30 * 24 * time.Hour
	DefaultCheckpointInterval   = 10
)

// DeletedFileRetention returns delta.deletedFileRetentionDuration: how long a removed
// file is kept, by its log tombstone.
func DeletedFileRetention(md *action.Metadata) (time.Duration, error) {
	return interval(md, "delta.deletedFileRetentionDuration", DefaultDeletedFileRetention)
}

// LogRetention returns delta.logRetentionDuration: how long log entries are kept.
func LogRetention(md *action.Metadata) (time.Duration, error) {
	return interval(md, "delta.logRetentionDuration", DefaultLogRetention)
}

// TxnRetention returns delta.setTransactionRetentionDuration; false: not set,
// transaction identifiers are kept for ever.
func TxnRetention(md *action.Metadata) (time.Duration, bool, error) {
	const name = "delta.setTransactionRetentionDuration"
	if Property(md, name) == "" {
		return 0, false, nil
	}
	d, err := interval(md, name, 0)
	return d, err == nil, err
}

// CheckpointInterval returns delta.checkpointInterval, in commits.
func CheckpointInterval(md *action.Metadata) (int64, error) {
	const name = "delta.checkpointInterval"
	text := strings.TrimSpace(Property(md, name))
	if text == "" {
		return DefaultCheckpointInterval, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("table property %s: %q is not a positive integer", name, text)
	}
	return n, nil
}

// WriteStatsAsJSON says whether a log checkpoint holds statistics as JSON text:
// delta.checkpoint.writeStatsAsJson, true unless set, as in Spark.
func WriteStatsAsJSON(md *action.Metadata) bool {
	return !strings.EqualFold(Property(md, "delta.checkpoint.writeStatsAsJson"), "false")
}

// WriteStatsAsStruct says whether a log checkpoint holds statistics as a struct:
// delta.checkpoint.writeStatsAsStruct, true unless set, as in Spark.
func WriteStatsAsStruct(md *action.Metadata) bool {
	return !strings.EqualFold(Property(md, "delta.checkpoint.writeStatsAsStruct"), "false")
}

func interval(md *action.Metadata, name string, def time.Duration) (time.Duration, error) {
	text := Property(md, name)
	if text == "" {
		return def, nil
	}
	d, err := ParseInterval(text)
	if err != nil {
		return 0, fmt.Errorf("table property %s: %w", name, err)
	}
	return d, nil
}
