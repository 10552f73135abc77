package expr

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// timeFunctions are the functions of dates, and of instants where no zone
// matters.
var timeFunctions = map[string]*scalar{
	"year":         {params: "t", result: typeInt, total: true, f: ofDate("YEAR")},
	"quarter":      {params: "t", result: typeInt, total: true, f: ofDate("QUARTER")},
	"month":        {params: "t", result: typeInt, total: true, f: ofDate("MONTH")},
	"day":          {params: "t", result: typeInt, total: true, f: ofDate("DAY")},
	"dayofmonth":   {params: "t", result: typeInt, total: true, f: ofDate("DAY")},
	"dayofweek":    {params: "t", result: typeInt, total: true, f: ofDate("DAYOFWEEK")},
	"weekday":      {params: "t", result: typeInt, total: true, f: ofDate("WEEKDAY")},
	"dayofyear":    {params: "t", result: typeInt, total: true, f: ofDate("DOY")},
	"weekofyear":   {params: "t", result: typeInt, total: true, f: ofDate("WEEK")},
	"last_day":     {params: "t", result: typeDate, total: true, f: lastDay},
	"date_add":     {params: "tI", result: typeDate, f: func(a []cell) (cell, string) { return fitDay(a[0].i + a[1].i) }},
	"dateadd":      {params: "tI", result: typeDate, f: func(a []cell) (cell, string) { return fitDay(a[0].i + a[1].i) }},
	"date_sub":     {params: "tI", result: typeDate, f: func(a []cell) (cell, string) { return fitDay(a[0].i - a[1].i) }},
	"datediff":     {params: "tt", result: typeInt, total: true, f: func(a []cell) (cell, string) { return cell{i: a[0].i - a[1].i}, "" }},
	"date_diff":    {params: "tt", result: typeInt, total: true, f: func(a []cell) (cell, string) { return cell{i: a[0].i - a[1].i}, "" }},
	"add_months":   {params: "ti", result: typeDate, f: func(a []cell) (cell, string) { return fitDay(addMonths(a[0].i, a[1].i)) }},
	"next_day":     {params: "ts", result: typeDate, f: nextDay},
	"trunc":        {params: "ts", result: typeDate, total: true, f: truncDate},
	"make_date":    {params: "iii", result: typeDate, f: makeDate},
	"unix_date":    {params: "t", result: typeInt, total: true, f: func(a []cell) (cell, string) { return a[0], "" }},
	"unix_seconds": {params: "T", result: typeBigint, total: true, f: func(a []cell) (cell, string) { return cell{i: floorDiv64(a[0].i, 1_000_000)}, "" }},
	"unix_millis":  {params: "T", result: typeBigint, total: true, f: func(a []cell) (cell, string) { return cell{i: floorDiv64(a[0].i, 1000)}, "" }},
	"unix_micros":  {params: "T", result: typeBigint, total: true, f: func(a []cell) (cell, string) { return a[0], "" }},

	"date_from_unix_date": {params: "i", result: typeDate, total: true, f: func(a []cell) (cell, string) { return a[0], "" }},
	"timestamp_millis":    {params: "l", result: tsUTC, f: scaledTime(1000)},
	"timestamp_micros":    {params: "l", result: tsUTC, f: scaledTime(1)},
	"from_utc_timestamp":  {params: "Ts", result: tsUTC, f: shiftZone(false)},
	"to_utc_timestamp":    {params: "Ts", result: tsUTC, f: shiftZone(true)},
}

// datePart is a part of a date; false if it knows no such part.
func datePart(part string, days int64) (int64, bool) {
	y, m, d := civil(days)
	t := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	isoYear, week := t.ISOWeek()
	switch part {
	case "YEAR":
		return int64(y), true
	case "YEAROFWEEK":
		return int64(isoYear), true
	case "QUARTER":
		return int64(m-1)/3 + 1, true
	case "MONTH":
		return int64(m), true
	case "WEEK":
		return int64(week), true
	case "DAY":
		return int64(d), true
	case "DAYOFWEEK":
		return int64(t.Weekday()) + 1, true
	case "WEEKDAY":
		return (int64(t.Weekday()) + 6) % 7, true
	case "DAYOFWEEK_ISO":
		return (int64(t.Weekday())+6)%7 + 1, true
	case "DOY":
		return int64(t.YearDay()), true
	}
	return 0, false
}

func ofDate(part string) rowFunc {
	return func(a []cell) (cell, string) {
		v, _ := datePart(part, a[0].i)
		return cell{i: v}, ""
	}
}

func lastDay(a []cell) (cell, string) {
	y, m, _ := civil(a[0].i)
	return cell{i: dayOf(y, m, daysIn(y, m))}, ""
}

func nextDay(a []cell) (cell, string) {
	name := strings.ToUpper(strings.TrimSpace(a[1].s))
	for w, full := range []string{"MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"} {
		if name == full || name == full[:2] || name == full[:3] {
			now, _ := datePart("WEEKDAY", a[0].i)
			return fitDay(a[0].i + (int64(w)-now+6)%7 + 1)
		}
	}
	return null, fmt.Sprintf("'%s' is no day of the week", a[1].s)
}

// truncated is the first day of the period that a day is in; false if the word
// names no period.
func truncated(word string, days int64) (int64, bool) {
	y, m, _ := civil(days)
	switch strings.ToUpper(word) {
	case "YEAR", "YYYY", "YY":
		return dayOf(y, 1, 1), true
	case "QUARTER":
		return dayOf(y, (m-1)/3*3+1, 1), true
	case "MONTH", "MM", "MON":
		return dayOf(y, m, 1), true
	case "WEEK":
		w, _ := datePart("WEEKDAY", days)
		return days - w, true
	}
	return 0, false
}

func truncDate(a []cell) (cell, string) {
	d, ok := truncated(a[1].s, a[0].i)
	if !ok {
		return null, ""
	}
	return cell{i: d}, ""
}

func makeDate(a []cell) (cell, string) {
	y, m, d := a[0].i, a[1].i, a[2].i
	if m < 1 || m > 12 || d < 1 || y > 999_999 || y < -999_999 || d > int64(daysIn(int(y), int(m))) {
		return null, fmt.Sprintf("%d-%d-%d is no date", y, m, d)
	}
	return fitDay(dayOf(int(y), int(m), int(d)))
}

func scaledTime(by int64) rowFunc {
	return func(a []cell) (cell, string) {
		v, ok := multiply(a[0].i, by)
		if !ok {
			return null, tooBig(a[0].i, tsUTC)
		}
		return cell{i: v}, ""
	}
}

func shiftZone(toUTC bool) rowFunc {
	return func(a []cell) (cell, string) {
		zone, ok := parseZone(a[1].s)
		if !ok {
			return null, fmt.Sprintf("'%s' is no time zone", a[1].s)
		}
		if toUTC {
			return cell{i: atZone(a[0].i, zone)}, ""
		}
		return cell{i: wallMicros(a[0].i, zone)}, ""
	}
}

// timeSpecial gives the functions of time that need the zone, the time of the
// statement or a pattern.
func timeSpecial(name string) (special, bool) {
	s, ok := map[string]special{
		"current_date": {0, 0, bindNow(typeDate)}, "curdate": {0, 0, bindNow(typeDate)},
		"current_timestamp": {0, 0, bindNow(tsUTC)}, "now": {0, 0, bindNow(tsUTC)}, "localtimestamp": {0, 0, bindNow(tsNTZ)},
		"hour": {1, 1, bindClock(3600e6, 24)}, "minute": {1, 1, bindClock(60e6, 60)}, "second": {1, 1, bindClock(1e6, 60)},
		"date_part": {2, 2, bindPart}, "datepart": {2, 2, bindPart},
		"date_trunc": {2, 2, bindDateTrunc},
		"to_date":    {1, 2, bindParse(typeDate, false)}, "try_to_date": {1, 2, bindParse(typeDate, true)},
		"to_timestamp": {1, 2, bindParse(tsUTC, false)}, "try_to_timestamp": {1, 2, bindParse(tsUTC, true)},
		"to_timestamp_ltz": {1, 2, bindParse(tsUTC, false)}, "to_timestamp_ntz": {1, 2, bindParse(tsNTZ, false)},
		"date_format":    {2, 2, bindFormat},
		"unix_timestamp": {0, 2, bindUnix}, "to_unix_timestamp": {1, 2, bindUnix},
		"from_unixtime":     {1, 2, bindFromUnix},
		"timestamp_seconds": {1, 1, bindSeconds},
	}[name]
	return s, ok
}

func bindNow(dt arrow.DataType) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, _ []node) (node, error) {
		if bd.now.IsZero() {
			return nil, &UnsupportedError{At: e.At, What: strings.ToLower(e.Func) + " here (there is no time of a statement)"}
		}
		return bd.cast(&constant{dt: tsUTC, i: bd.now.UnixMicro(), src: e}, dt, e, false)
	}
}

// local turns a date, a timestamp or a text into what clocks in the zone show.
func (bd *binder) local(a Expr, n node) (node, error) {
	t := n.typ()
	switch {
	case t.ID() == arrow.STRING && bd.zone != nil:
		var err error
		if n, err = bd.cast(n, tsUTC, a, false); err != nil {
			return nil, err
		}
	case timeRank(t) == 0 && t.ID() != arrow.STRING && t.ID() != arrow.NULL:
		return nil, &BindError{At: a.Pos(), Text: a.String(), Msg: typeName(t) + " where a date or timestamp is needed"}
	}
	return bd.cast(n, tsNTZ, a, false)
}

// instant turns what clocks in the zone show back into a timestamp.
func (bd *binder) instant(n node, src Expr) (node, error) { return bd.cast(n, tsUTC, src, false) }

func bindClock(unit, modulus int64) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		x, err := bd.local(e.Args[0], args[0])
		if err != nil {
			return nil, err
		}
		return bd.function(&funcNode{dt: typeInt, args: []node{x}, src: e, fresh: always(func(a []cell) (cell, string) {
			ofDay := a[0].i - floorDiv64(a[0].i, microsPerDay)*microsPerDay
			return cell{i: ofDay / unit % modulus}, ""
		})}, false), nil
	}
}

var partNames = map[string]string{
	"Y": "YEAR", "YEARS": "YEAR", "YR": "YEAR", "YRS": "YEAR", "QTR": "QUARTER", "MON": "MONTH", "MONS": "MONTH", "MONTHS": "MONTH",
	"W": "WEEK", "WEEKS": "WEEK", "D": "DAY", "DAYS": "DAY", "DOW": "DAYOFWEEK", "DOW_ISO": "DAYOFWEEK_ISO",
	"H": "HOUR", "HOURS": "HOUR", "HR": "HOUR", "HRS": "HOUR", "M": "MINUTE", "MIN": "MINUTE", "MINS": "MINUTE", "MINUTES": "MINUTE",
	"S": "SECOND", "SEC": "SECOND", "SECONDS": "SECOND", "SECS": "SECOND",
}

// bindPart binds date_part and, through the parser, EXTRACT.
func bindPart(bd *binder, e *Call, args []node) (node, error) {
	word, err := literalText(e, args, 0)
	if err != nil {
		return nil, err
	}
	part := strings.ToUpper(word)
	if full, ok := partNames[part]; ok {
		part = full
	}
	switch part {
	case "HOUR":
		return bindClock(3600e6, 24)(bd, &Call{At: e.At, Func: "hour", Args: e.Args[1:]}, args[1:])
	case "MINUTE":
		return bindClock(60e6, 60)(bd, &Call{At: e.At, Func: "minute", Args: e.Args[1:]}, args[1:])
	case "SECOND":
		x, err := bd.local(e.Args[1], args[1])
		if err != nil {
			return nil, err
		}
		dt := &arrow.Decimal128Type{Precision: 8, Scale: 6}
		return bd.function(&funcNode{dt: dt, args: []node{x}, src: e, fresh: always(func(a []cell) (cell, string) {
			return cell{d: decimal(a[0].i - floorDiv64(a[0].i, 60_000_000)*60_000_000)}, ""
		})}, false), nil
	}
	if _, ok := datePart(part, 0); !ok {
		return nil, &UnsupportedError{At: e.Args[0].Pos(), What: "the part " + word + " of a date"}
	}
	x, err := bd.argument(e.Args[1], args[1], kDate, e)
	if err != nil {
		return nil, err
	}
	return bd.function(&funcNode{dt: typeInt, args: []node{x}, src: e, fresh: always(ofDate(part))}, false), nil
}

// bindDateTrunc truncates by the clocks of the zone.
func bindDateTrunc(bd *binder, e *Call, args []node) (node, error) {
	word, err := bd.argument(e.Args[0], args[0], kString, e)
	if err != nil {
		return nil, err
	}
	x, err := bd.local(e.Args[1], args[1])
	if err != nil {
		return nil, err
	}
	n := bd.function(&funcNode{dt: tsNTZ, args: []node{word, x}, src: e, fresh: always(func(a []cell) (cell, string) {
		us := a[1].i
		day := floorDiv64(us, microsPerDay)
		if d, ok := truncated(a[0].s, day); ok {
			return cell{i: d * microsPerDay}, ""
		}
		switch strings.ToUpper(a[0].s) {
		case "DAY", "DD":
			return cell{i: day * microsPerDay}, ""
		}
		if u, ok := intervalUnits[strings.ToUpper(a[0].s)]; ok && u.micros > 0 {
			return cell{i: floorDiv64(us, u.micros) * u.micros}, ""
		}
		return null, ""
	})}, false)
	return bd.instant(n, e)
}

func bindSeconds(bd *binder, e *Call, args []node) (node, error) {
	if !isNumber(args[0].typ()) {
		return nil, &BindError{At: e.Args[0].Pos(), Text: e.Args[0].String(), Msg: typeName(args[0].typ()) + " where a number is needed"}
	}
	return bd.cast(args[0], tsUTC, e, false)
}

// patternArgument is the pattern of a function, or its default.
func patternArgument(e *Call, args []node, i int, usual string) (*timePattern, error) {
	text := usual
	var at Position
	if len(args) > i {
		var err error
		if text, err = literalText(e, args, i); err != nil {
			return nil, err
		}
		at = e.Args[i].Pos()
	}
	p, msg := newTimePattern(text)
	if msg != "" {
		return nil, &UnsupportedError{At: at, What: msg}
	}
	return p, nil
}

const usualPattern = "yyyy-MM-dd HH:mm:ss"

// bindParse binds to_date and to_timestamp: without pattern a cast.
func bindParse(dt arrow.DataType, try bool) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		if len(args) == 1 || args[0].typ().ID() != arrow.STRING {
			if t := args[0].typ(); t.ID() != arrow.STRING && t.ID() != arrow.NULL && timeRank(t) == 0 && (!isNumber(t) || !isZoned(dt)) {
				return nil, &BindError{At: e.At, Text: e.String(), Msg: typeName(t) + " where a date, a timestamp or a text is needed"}
			}
			return bd.cast(args[0], dt, e, try)
		}
		p, err := patternArgument(e, args, 1, usualPattern)
		if err != nil {
			return nil, err
		}
		return bd.parsed(e, args[0], p, dt, try)
	}
}

// parsed binds text read by a pattern.
func (bd *binder) parsed(e Expr, x node, p *timePattern, dt arrow.DataType, try bool) (node, error) {
	if p.named {
		return nil, &UnsupportedError{At: e.Pos(), What: "reading a day of the week by the pattern '" + p.text + "'"}
	}
	if isZoned(dt) && bd.zone == nil && !p.zoned {
		return nil, &BindError{At: e.Pos(), Text: e.String(), Msg: "reading a timestamp without zone needs a time zone, and none is given"}
	}
	return bd.function(&funcNode{dt: dt, args: []node{x}, src: e, try: try, fresh: always(func(a []cell) (cell, string) {
		wall, offset, msg := p.parse(a[0].s)
		switch {
		case msg != "":
			return null, msg
		case dt.ID() == arrow.DATE32:
			return cell{i: floorDiv64(wall, microsPerDay)}, ""
		case !isZoned(dt):
			return cell{i: wall}, ""
		case p.zoned:
			return cell{i: wall - offset*1_000_000}, ""
		}
		return cell{i: atZone(wall, bd.zone)}, ""
	})}, true), nil
}

func bindFormat(bd *binder, e *Call, args []node) (node, error) {
	p, err := patternArgument(e, args, 1, "")
	if err != nil {
		return nil, err
	}
	x, err := bd.local(e.Args[0], args[0])
	if err != nil {
		return nil, err
	}
	return bd.formatted(e, x, p)
}

func (bd *binder) formatted(e Expr, x node, p *timePattern) (node, error) {
	if p.zoned && bd.zone == nil {
		return nil, &BindError{At: e.Pos(), Text: e.String(), Msg: "writing an offset needs a time zone, and none is given"}
	}
	return bd.function(&funcNode{dt: typeString, args: []node{x}, src: e, fresh: always(func(a []cell) (cell, string) {
		offset := int64(0)
		if p.zoned {
			offset = (a[0].i - atZone(a[0].i, bd.zone)) / 1_000_000
		}
		return cell{s: p.format(a[0].i, offset)}, ""
	})}, false), nil
}

// bindUnix gives seconds: of the statement's time, of a time, of a text.
func bindUnix(bd *binder, e *Call, args []node) (node, error) {
	var x node
	var err error
	switch {
	case len(args) == 0:
		x, err = bindNow(tsUTC)(bd, e, nil)
	case args[0].typ().ID() == arrow.STRING:
		var p *timePattern
		if p, err = patternArgument(e, args, 1, usualPattern); err == nil {
			x, err = bd.parsed(e, args[0], p, tsUTC, false)
		}
	default:
		x, err = bd.argument(e.Args[0], args[0], kTime, e)
	}
	if err != nil {
		return nil, err
	}
	return bd.function(&funcNode{dt: typeBigint, args: []node{x}, src: e, fresh: always(func(a []cell) (cell, string) {
		return cell{i: a[0].i / 1_000_000}, "" // towards zero, unlike a cast, as in Spark
	})}, false), nil
}

func bindFromUnix(bd *binder, e *Call, args []node) (node, error) {
	p, err := patternArgument(e, args, 1, usualPattern)
	if err != nil {
		return nil, err
	}
	x, err := bd.argument(e.Args[0], args[0], kBigint, e)
	if err != nil {
		return nil, err
	}
	if x, err = bd.cast(x, tsUTC, e, false); err != nil {
		return nil, err
	}
	if x, err = bd.cast(x, tsNTZ, e, false); err != nil {
		return nil, err
	}
	return bd.formatted(e, x, p)
}
