package deltatable

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// valueKind is what the value of a known table property must look like.
type valueKind uint8

const (
	anyText valueKind = iota
	trueOrFalse
	fromOne      // an integer from 1
	fromMinusOne // an integer from -1
	aSize        // see sizeProperty
	aDuration    // see feature.ParseInterval
	identifiers  // see splitIdentifiers
	notAProperty // belongs into the protocol action
)

// knownProperties are the properties whose values some engine reads, and fails
// on or ignores where they are odd (protocol notes 1.13).
var knownProperties = map[string]valueKind{
	"delta.appendOnly":                      trueOrFalse,
	"delta.autoOptimize.autoCompact":        anyText, // also "auto" and "legacy"
	"delta.autoOptimize.optimizeWrite":      trueOrFalse,
	"delta.checkpoint.writeStatsAsJson":     trueOrFalse,
	"delta.checkpoint.writeStatsAsStruct":   trueOrFalse,
	"delta.checkpointInterval":              fromOne,
	"delta.checkpointPolicy":                anyText,
	"delta.checkpointRetentionDuration":     aDuration,
	"delta.columnMapping.mode":              anyText,
	"delta.dataSkippingNumIndexedCols":      fromMinusOne,
	"delta.dataSkippingStatsColumns":        identifiers,
	"delta.dataSkippingStringPrefixLength":  fromOne,
	"delta.deletedFileRetentionDuration":    aDuration,
	"delta.enableChangeDataFeed":            trueOrFalse,
	"delta.enableDeletionVectors":           trueOrFalse,
	"delta.enableExpiredLogCleanup":         trueOrFalse,
	"delta.enableIcebergCompatV1":           trueOrFalse,
	"delta.enableIcebergCompatV2":           trueOrFalse,
	"delta.enableIcebergCompatV3":           trueOrFalse,
	"delta.enableInCommitTimestamps":        trueOrFalse,
	"delta.enableRowTracking":               trueOrFalse,
	"delta.enableTypeWidening":              trueOrFalse,
	"delta.enableVariantShredding":          trueOrFalse,
	"delta.ignoreProtocolDefaults":          notAProperty,
	"delta.isolationLevel":                  anyText,
	"delta.logRetentionDuration":            aDuration,
	"delta.minReaderVersion":                notAProperty,
	"delta.minWriterVersion":                notAProperty,
	"delta.parquet.compression.codec":       anyText,
	"delta.randomizeFilePrefixes":           trueOrFalse,
	"delta.setTransactionRetentionDuration": aDuration,
	"delta.targetFileSize":                  aSize,
	"delta.tuneFileSizesForRewrites":        trueOrFalse,
	"delta.universalFormat.enabledFormats":  anyText,
}

// CheckProperties refuses table properties, as *PropertyError, whose values no
// engine can use: an odd value would let other engines fail on the table. A
// name that differs from a known one only in case is refused too: engines look
// names up as they are spelled. Unknown names pass. Of properties that a table
// has already nothing is known here; those are for their readers.
func CheckProperties(props map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(props)) {
		if err := checkProperty(props, k); err != nil {
			return err
		}
	}
	return nil
}

func checkProperty(props map[string]string, key string) error {
	bad := func(want string) error { return &PropertyError{Key: key, Value: props[key], Want: want} }
	kind, known := knownProperties[key]
	if !known {
		for k := range knownProperties {
			if strings.EqualFold(k, key) {
				return bad("the spelling " + k)
			}
		}
		return nil
	}
	v := strings.TrimSpace(props[key])
	switch kind {
	case trueOrFalse:
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return bad("true or false")
		}
	case fromOne, fromMinusOne:
		least, want := int64(1), "an integer from 1"
		if kind == fromMinusOne {
			least, want = -1, "an integer from -1"
		}
		if n, err := strconv.ParseInt(v, 10, 32); err != nil || n < least {
			return bad(want)
		}
	case aSize:
		_, err := sizeProperty(props, key, 0)
		return err
	case aDuration:
		if _, err := feature.ParseInterval(v); err != nil {
			return bad("a duration such as 'interval 30 days'")
		}
	case identifiers:
		if _, err := splitIdentifiers(v); err != nil {
			return bad("column names with commas between them")
		}
	case notAProperty:
		return bad("no value: the protocol follows from the schema and the other properties")
	case anyText:
	}
	return nil
}
