package deltatable

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestCheckProperties: values that other engines fail on are refused, for a new
// table and by themselves; names are taken as they are spelled.
func TestCheckProperties(t *testing.T) {
	good := []string{
		"a=b", "delta.unknown=anything", "delta.appendOnly=TRUE", "delta.checkpointInterval= 7",
		"delta.dataSkippingNumIndexedCols=-1", "delta.dataSkippingStatsColumns=a, `b,c`.d", "delta.targetFileSize=128mb",
		"delta.logRetentionDuration=interval 30 days", "delta.setTransactionRetentionDuration=2 hours",
		"delta.isolationLevel=Serializable",
	}
	bad := []string{
		"delta.appendOnly=yes", "delta.checkpointInterval=0", "delta.checkpointInterval=x", "delta.checkpointInterval=99999999999",
		"delta.dataSkippingNumIndexedCols=-2", "delta.dataSkippingStatsColumns=`a", "delta.targetFileSize=0",
		"delta.logRetentionDuration=a month", "delta.deletedFileRetentionDuration=-1 days", "delta.minReaderVersion=3",
		"delta.minWriterVersion=1", "Delta.AppendOnly=true", "delta.checkpointinterval=7",
	}
	sch, err := ParseDDL("id long")
	if err != nil {
		t.Fatal(err)
	}
	for i, kv := range append(good, bad...) {
		t.Run(kv, func(t *testing.T) {
			k, v, _ := strings.Cut(kv, "=")
			props := map[string]string{k: v}
			_, _, made := NewTableMetadata(sch, nil, props)
			for _, err := range []error{CheckProperties(props), made} {
				var pe *PropertyError
				if refused := errors.As(err, &pe); refused != (i >= len(good)) || err != nil && pe.Key != k {
					t.Errorf("got %v", fmt.Sprint(err))
				}
			}
		})
	}
}
