package expr

import (
	"math/big"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// An interval is a length of time as SQL has it: months and days are those of
// the calendar. Intervals are no values here: they stand beside + and - only.
type interval struct {
	months, days, micros int64
}

var intervalUnits = map[string]interval{
	"YEAR": {months: 12}, "MONTH": {months: 1}, "WEEK": {days: 7}, "DAY": {days: 1},
	"HOUR": {micros: 3600e6}, "MINUTE": {micros: 60e6}, "SECOND": {micros: 1e6}, "MILLISECOND": {micros: 1000}, "MICROSECOND": {micros: 1},
}

// unitOf knows a unit in singular and plural.
func unitOf(word string) (interval, bool) {
	u, ok := intervalUnits[strings.TrimSuffix(strings.ToUpper(word), "S")]
	return u, ok
}

// intervalRest parses what follows the word INTERVAL: a string with an optional
// unit, or numbers with units.
func (p *parser) intervalRest(at Position) (Expr, error) {
	lit := &Literal{At: at, Kind: Interval}
	if t := p.peek(); t.kind == tokString {
		p.i++
		lit.Text = t.text
		if _, ok := unitOf(p.peek().text); ok && p.peek().kind == tokWord {
			lit.Unit = strings.ToUpper(p.take().text)
			if p.word("TO") {
				lit.Unit += " TO " + strings.ToUpper(p.take().text)
			}
		}
		return lit, nil
	}
	var parts []string
	for {
		sign := ""
		if isOp(p.peek(), "-") && p.peek2().kind == tokNumber {
			p.i++
			sign = "-"
		}
		t := p.peek()
		if t.kind != tokNumber || t.raw != t.text {
			return nil, p.fail("expected a number of an INTERVAL")
		}
		p.i++
		if _, ok := unitOf(p.peek().text); !ok {
			return nil, p.fail("expected a unit of an INTERVAL")
		}
		parts = append(parts, sign+t.text, strings.ToUpper(p.take().text))
		if p.peek().kind != tokNumber {
			break
		}
	}
	if len(parts) == 2 {
		lit.Text, lit.Unit = parts[0], parts[1]
	} else {
		lit.Text = strings.Join(parts, " ")
	}
	return lit, nil
}

// add adds text units to the interval.
func (iv *interval) add(text string, u interval) bool {
	n, scale, ok := parseDecimal(strings.TrimPrefix(text, "+"))
	if !ok || strings.ContainsAny(text, "eE") {
		return false
	}
	if scale > 0 && (u != intervalUnits["SECOND"] || scale > 9) {
		return false
	}
	if scale > 0 {
		n.Mul(n, big.NewInt(1_000_000))
		n.Quo(n, pow10(int(scale)))
		u = interval{micros: 1}
	}
	const most = 1e12
	if !n.IsInt64() || u.micros == 0 && n.CmpAbs(big.NewInt(most)) > 0 {
		return false
	}
	v := n.Int64()
	micros, ok := multiply(v, u.micros)
	if !ok || (iv.micros+micros > iv.micros) != (micros > 0) {
		return false
	}
	iv.months, iv.days, iv.micros = iv.months+v*u.months, iv.days+v*u.days, iv.micros+micros
	return true
}

// parseInterval reads an INTERVAL literal.
func parseInterval(e *Literal) (interval, bool) {
	var iv interval
	text := strings.TrimSpace(e.Text)
	if from, to, ok := strings.Cut(e.Unit, " TO "); ok {
		return spannedInterval(text, strings.TrimSuffix(from, "S"), strings.TrimSuffix(to, "S"))
	}
	if e.Unit != "" {
		u, ok := unitOf(e.Unit)
		ok = ok && iv.add(text, u)
		return iv, ok
	}
	words := strings.Fields(text)
	if len(words) > 0 && strings.EqualFold(words[0], "interval") {
		words = words[1:]
	}
	if len(words) == 0 || len(words)%2 != 0 {
		return iv, false
	}
	for i := 0; i < len(words); i += 2 {
		u, ok := unitOf(words[i+1])
		if !ok || !iv.add(words[i], u) {
			return iv, false
		}
	}
	return iv, true
}

// spannedInterval reads '1-2' YEAR TO MONTH and '1 02:03:04.5' DAY TO SECOND.
func spannedInterval(text, from, to string) (interval, bool) {
	order := []string{"YEAR", "MONTH"}
	seps := "-"
	if from != "YEAR" {
		order, seps = []string{"DAY", "HOUR", "MINUTE", "SECOND"}, " ::"
	}
	first, last := -1, -1
	for i, u := range order {
		if u == from {
			first = i
		}
		if u == to {
			last = i
		}
	}
	if first < 0 || last <= first {
		return interval{}, false
	}
	negative := strings.HasPrefix(text, "-")
	text = strings.TrimLeft(text, "+-")
	var iv interval
	for i := first; i <= last; i++ {
		part := text
		if i < last {
			var ok bool
			if part, text, ok = strings.Cut(text, seps[i:i+1]); !ok {
				return iv, false
			}
		}
		if strings.HasPrefix(part, "-") || !iv.add(part, intervalUnits[order[i]]) {
			return iv, false
		}
	}
	if negative {
		iv = iv.negated()
	}
	return iv, true
}

func (iv interval) negated() interval {
	return interval{-iv.months, -iv.days, -iv.micros}
}

// interval tells whether an expression is an interval: a literal, perhaps with
// a sign or times an integer.
func (bd *binder) interval(e Expr) (iv interval, is bool, err error) {
	switch e := e.(type) {
	case *Literal:
		if e.Kind != Interval {
			return iv, false, nil
		}
		iv, ok := parseInterval(e)
		switch {
		case !ok:
			err = &BindError{At: e.At, Text: e.String(), Msg: "no interval"}
		case iv.months != 0 && (iv.days != 0 || iv.micros != 0):
			err = &BindError{At: e.At, Text: e.String(), Msg: "an interval has years and months, or weeks and less, not both"}
		}
		return iv, true, err
	case *Prefix:
		if iv, is, err = bd.interval(e.X); is && e.Op == "-" {
			iv = iv.negated()
		}
		return iv, is && e.Op != "~", err
	}
	return iv, false, nil
}

// shifted binds x plus or minus an interval.
func (bd *binder) shifted(e *Infix) (node, error) {
	iv, is, err := bd.interval(e.R)
	xe := e.L
	if err == nil && !is && e.Op == "+" {
		iv, is, err = bd.interval(e.L)
		xe = e.R
	}
	if err != nil || !is {
		return nil, err
	}
	if e.Op == "-" {
		iv = iv.negated()
	}
	x, err := bd.bind(xe)
	if err != nil {
		return nil, err
	}
	t := x.typ()
	if timeRank(t) == 0 {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: "an interval is added to dates and timestamps, this is " + typeName(t)}
	}
	if t.ID() == arrow.DATE32 {
		if iv.micros == 0 {
			return bd.function(&funcNode{dt: typeDate, args: []node{x}, src: e, fresh: always(func(a []cell) (cell, string) {
				return fitDay(addMonths(a[0].i, iv.months) + iv.days)
			})}, true), nil
		}
		if x, err = bd.cast(x, tsUTC, xe, false); err != nil {
			return nil, err
		}
		t = tsUTC
	}
	zone := time.UTC
	if isZoned(t) {
		if zone = bd.zone; zone == nil && (iv.months != 0 || iv.days != 0) {
			return nil, &BindError{At: e.At, Text: e.String(), Msg: "days and months beside a timestamp need a time zone, and none is given"}
		}
	}
	return bd.function(&funcNode{dt: t, args: []node{x}, src: e, fresh: always(func(a []cell) (cell, string) { return iv.after(a[0].i, zone, t) })}, true), nil
}

// after is the instant an interval after another: months and days by the clocks
// of the zone.
func (iv interval) after(us int64, zone *time.Location, t arrow.DataType) (cell, string) {
	if iv.months != 0 || iv.days != 0 {
		wall := wallMicros(us, zone)
		day := floorDiv64(wall, microsPerDay)
		moved := addMonths(day, iv.months) + iv.days
		if moved > maxDay || moved < -maxDay {
			return null, tooBig("the time", t)
		}
		us = atZone(wall-day*microsPerDay+moved*microsPerDay, zone)
	}
	sum := us + iv.micros
	if (sum > us) != (iv.micros > 0) {
		return null, tooBig("the time", t)
	}
	return cell{i: sum}, ""
}

// addMonths keeps the day of the month, or takes the month's last.
func addMonths(days, months int64) int64 {
	if months == 0 {
		return days
	}
	y, m, d := civil(days)
	n := int64(y)*12 + int64(m) - 1 + months
	year, month := int(floorDiv64(n, 12)), int(n-12*floorDiv64(n, 12))+1
	return dayOf(year, month, min(d, daysIn(year, month)))
}

func daysIn(y, m int) int { return time.Date(y, time.Month(m)+1, 0, 0, 0, 0, 0, time.UTC).Day() }

// dayOf is the number of a date's day.
func dayOf(y, m, d int) int64 {
	return floorDiv64(time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC).Unix(), 86400)
}

func fitDay(v int64) (cell, string) {
	if !fitsInt(v, 32) {
		return null, tooBig("the date", typeDate)
	}
	return cell{i: v}, ""
}

// dateShift binds date + n, n + date and date - n; nil where it is none of these.
func (bd *binder) dateShift(op string, src Expr, exprs [2]Expr, args [2]node) (node, error) {
	re, l, r := exprs[1], args[0], args[1]
	if op == "+" && r.typ().ID() == arrow.DATE32 {
		re, l, r = exprs[0], r, l
	}
	switch {
	case timeRank(l.typ()) > 0 && timeRank(r.typ()) > 0 && op == "-":
		return nil, &UnsupportedError{At: src.Pos(), What: "the difference of dates and timestamps (an interval; datediff and unix_micros give numbers)"}
	case l.typ().ID() != arrow.DATE32:
		return nil, nil
	}
	days, err := bd.argument(re, r, kSmall, src)
	if err != nil {
		return nil, err
	}
	return bd.function(&funcNode{dt: typeDate, args: []node{l, days}, src: src, fresh: always(func(a []cell) (cell, string) {
		if op == "-" {
			return fitDay(a[0].i - a[1].i)
		}
		return fitDay(a[0].i + a[1].i)
	})}, true), nil
}
