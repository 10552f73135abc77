package feature

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseInterval reads a duration as table properties spell it: "interval 1 week",
// "2 days 3 hours", in any case, the word interval being optional. Months and years
// have no fixed length and are refused, as are negative durations. A duration beyond
// what time.Duration holds (292 years) is cut to that.
func ParseInterval(text string) (time.Duration, error) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) > 0 && words[0] == "interval" {
		words = words[1:]
	}
	if len(words) == 0 || len(words)%2 != 0 {
		return 0, fmt.Errorf("%q is not an interval such as \"interval 1 week\"", text)
	}
	var total time.Duration
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("interval %q: %q is not an integer", text, words[i])
		}
		if n < 0 {
			return 0, fmt.Errorf("interval %q is negative", text)
		}
		u, err := unit(words[i+1])
		if err != nil {
			return 0, fmt.Errorf("interval %q: %w", text, err)
		}
		total = addSaturated(total, n, u)
	}
	return total, nil
}

func unit(word string) (time.Duration, error) {
	switch strings.TrimSuffix(word, "s") {
	case "nanosecond":
		return time.Nanosecond, nil
	case "microsecond":
		return time.Microsecond, nil
	case "millisecond":
		return time.Millisecond, nil
	case "second":
		return time.Second, nil
	case "minute":
		return time.Minute, nil
	case "hour":
		return time.Hour, nil
	case "day":
		return 24 * time.Hour, nil
	case "week":
		return 7 * 24 * time.Hour, nil
	case "month", "year":
		return 0, fmt.Errorf("a %s has no fixed length", strings.TrimSuffix(word, "s"))
	}
	return 0, fmt.Errorf("unknown unit %q", word)
}

func addSaturated(total time.Duration, n int64, u time.Duration) time.Duration {
	if n > int64(math.MaxInt64-total)/int64(u) {
		return math.MaxInt64
	}
	return total + time.Duration(n)*u
}
