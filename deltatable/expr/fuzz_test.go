package expr

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/deltafold/deltafold/internal/ordered"
)

// FuzzEval: whatever parses is bound and evaluated, or refused in one of the
// known ways.
func FuzzEval(f *testing.F) {
	text, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			f.Add(strings.TrimSuffix(line, "\n"))
		}
	}
	rec := sampleRecord(f)
	f.Fuzz(func(t *testing.T, sql string) {
		slow := time.AfterFunc(time.Minute, func() { panic("takes too long: " + sql) })
		defer slow.Stop()
		e, err := Parse(sql)
		if err != nil {
			return
		}
		b, err := BindWith(e, rec.Schema(), &Options{Zone: time.UTC, Now: time.Unix(1700000000, 0)})
		var be *BindError
		var ue *UnsupportedError
		if errors.As(err, &be) || errors.As(err, &ue) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %T: %v", sql, err, err)
		}
		b.MayMatch(func(string) ordered.Bounds { return ordered.Unknown() })
		arr, err := b.Eval(rec)
		var ee *EvalError
		switch {
		case errors.As(err, &ee):
		case err != nil:
			t.Fatalf("%s: %T: %v", sql, err, err)
		case arr.Len() != int(rec.NumRows()) || arr.DataType().ID() != b.Type().ID():
			t.Fatalf("%s: %d rows of %s, want %s", sql, arr.Len(), arr.DataType(), b.Type())
		}
	})
}
