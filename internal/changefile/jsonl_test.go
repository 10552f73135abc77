package changefile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
)

// Each input is refused with exactly this message.
var refused = []struct{ name, in, want string }{
	// The twenty of the survey of JSON readers.
	{"duplicate name", `{"id":1,"id":2}`, `f.jsonl:1: column id: "id": the name stands twice in one object`},
	{"integer too large", `{"id":9223372036854775808}`, `f.jsonl:1: column id: 9223372036854775808: it does not fit a long (-9223372036854775808 to 9223372036854775807)`},
	{"fraction of zero", `{"id":1.0}`, `f.jsonl:1: column id: 1.0: a long takes an integer without fraction or exponent`},
	{"exponent", `{"id":1e3}`, `f.jsonl:1: column id: 1e3: a long takes an integer without fraction or exponent`},
	{"fraction", `{"id":1.5}`, `f.jsonl:1: column id: 1.5: a long takes an integer without fraction or exponent`},
	{"integer as text", `{"id":"12"}`, `f.jsonl:1: column id: "12": a long takes a JSON integer`},
	{"trailing garbage", `{"id":1}x`, `f.jsonl:1: x: there is more on the line behind the object`},
	{"trailing comma", `{"id":1,}`, `f.jsonl:1: }: malformed JSON at byte 9, where a name was expected`},
	{"leading zero", `{"id":01}`, `f.jsonl:1: column id: 1}: malformed JSON at byte 8, in a number`},
	{"NaN for an integer", `{"id":NaN}`, `f.jsonl:1: column id: NaN}: malformed JSON: invalid character 'N' at start of value`},
	{"two objects on a line", `{"id":1}{"id":2}`, `f.jsonl:1: {"id":2}: there is more on the line behind the object`},
	{"truncated last object", "{\"id\":1}\n{\"id\":2,\"str\":", `f.jsonl:2: column str: malformed JSON: the line ends where a value was expected`},
	{"truncated string", `{"str":"ab`, `f.jsonl:1: column str: "ab: malformed JSON: the line ends inside a string`},
	{"invalid UTF-8", "{\"str\":\"a\xffb\"}", `f.jsonl:1: column str: "a\xffb": invalid UTF-8`},
	{"lone surrogate", `{"str":"\ud800"}`, `f.jsonl:1: column str: "\ud800": lone surrogate \ud800`},
	{"control character", "{\"str\":\"a\x01b\"}", `f.jsonl:1: column str: "a\u0001: malformed JSON: a control character in a string must be escaped`},
	{"unknown field", `{"id":1,"nope":2}`, `f.jsonl:1: "nope": unknown field`},
	{"other case twice", `{"id":1,"ID":2}`, `f.jsonl:1: column id: "ID": it names the same column as "id"`},
	{"array for a row", `[1]`, `f.jsonl:1: [1]: a line takes a JSON object`},
	{"string for a boolean", `{"bool":"true"}`, `f.jsonl:1: column bool: "true": a boolean takes true or false`},
	// And more.
	{"empty object cut", `{`, `f.jsonl:1: malformed JSON: the line ends where a name was expected`},
	{"object over two lines", "{\"id\":\n1}", `f.jsonl:1: column id: malformed JSON: the line ends where a value was expected`},
	{"name twice by escape", `{"id":1,"\u0069d":2}`, `f.jsonl:1: column id: "\u0069d": the name stands twice in one object`},
	{"no colon", `{"id" 1}`, `f.jsonl:1: 1}: malformed JSON at byte 7, where a colon was expected`},
	{"no comma", `{"id":1 "str":"x"}`, `f.jsonl:1: "str":"x"}: malformed JSON at byte 9, where a comma or the end of the object was expected`},
	{"name without quotes", `{id:1}`, `f.jsonl:1: id:1}: malformed JSON at byte 2, where a name was expected`},
	{"scalar for a row", `12`, `f.jsonl:1: 12: a line takes a JSON object`},
	{"null for a row", `null`, `f.jsonl:1: null: a line takes a JSON object`},
	{"second byte order mark", "\ufeff\ufeff{\"id\":1}", `f.jsonl:1: ` + "\ufeff" + `{"id":1}: malformed JSON: invalid character '\ufeff' at start of value`},
	{"bad escape", `{"str":"\x41"}`, `f.jsonl:1: column str: "\x41": malformed JSON: unknown escape \x`},
	{"short escape", `{"str":"\u12"}`, `f.jsonl:1: column str: "\u12": malformed JSON: \u takes four hexadecimal digits`},
	{"low surrogate first", `{"str":"\udc00\ud800"}`, `f.jsonl:1: column str: "\udc00\ud800": lone surrogate \udc00`},
	{"surrogate and letter", `{"str":"\ud800a"}`, `f.jsonl:1: column str: "\ud800a": lone surrogate \ud800`},
	{"surrogate in a name", `{"\ud800":1}`, `f.jsonl:1: "\ud800": lone surrogate \ud800`},
	{"raw tab in a string", "{\"str\":\"a\tb\"}", `f.jsonl:1: column str: "a\u0009: malformed JSON: a control character in a string must be escaped`},
	{"number for a string", `{"str":1}`, `f.jsonl:1: column str: 1: a string takes a JSON string`},
	{"misspelled literal", `{"bool":True}`, `f.jsonl:1: column bool: True}: malformed JSON: invalid character 'T' at start of value`},
	{"misspelled null", `{"id":nul}`, `f.jsonl:1: column id: nul}: malformed JSON at byte 7, where a value was expected`},
	{"minus alone", `{"id":-}`, `f.jsonl:1: column id: }: malformed JSON at byte 8, in a number`},
	{"plus sign", `{"id":+1}`, `f.jsonl:1: column id: +1}: malformed JSON: invalid character '+' at start of value`},
	{"beyond uint64", `{"id":18446744073709551616}`, `f.jsonl:1: column id: 18446744073709551616: it does not fit a long (-9223372036854775808 to 9223372036854775807)`},
	{"unsigned long", `{"id":18446744071636006420}`, `f.jsonl:1: column id: 18446744071636006420: it does not fit a long (-9223372036854775808 to 9223372036854775807)`},
	{"below the least long", `{"id":-9223372036854775809}`, `f.jsonl:1: column id: -9223372036854775809: it does not fit a long (-9223372036854775808 to 9223372036854775807)`},
	{"byte", `{"byte":128}`, `f.jsonl:1: column byte: 128: it does not fit a byte (-128 to 127)`},
	{"short", `{"short":-32769}`, `f.jsonl:1: column short: -32769: it does not fit a short (-32768 to 32767)`},
	{"integer", `{"int":2147483648}`, `f.jsonl:1: column int: 2147483648: it does not fit an integer (-2147483648 to 2147483647)`},
	{"object for an integer", `{"id":{"a":1}}`, `f.jsonl:1: column id: {"a":1}: a long takes a JSON integer`},
	{"float overflow", `{"float":3.5e38}`, `f.jsonl:1: column float: 3.5e38: it does not fit a float`},
	{"double overflow", `{"double":1e309}`, `f.jsonl:1: column double: 1e309: it does not fit a double`},
	{"text for a double", `{"double":"1.5"}`, `f.jsonl:1: column double: "1.5": a double takes a JSON number, "NaN", "Infinity" or "-Infinity"`},
	{"inf", `{"double":"inf"}`, `f.jsonl:1: column double: "inf": a double takes a JSON number, "NaN", "Infinity" or "-Infinity"`},
	{"bare dot", `{"double":1.}`, `f.jsonl:1: column double: }: malformed JSON at byte 13, in a number`},
	{"bare exponent", `{"double":1e}`, `f.jsonl:1: column double: }: malformed JSON at byte 13, in a number`},
	{"decimal scale", `{"dec":"1.005"}`, `f.jsonl:1: column dec: "1.005": it has digits beyond the scale of decimal(10,2)`},
	{"decimal scale of a number", `{"dec":1.005}`, `f.jsonl:1: column dec: 1.005: it has digits beyond the scale of decimal(10,2)`},
	{"decimal exponent", `{"dec":1e-3}`, `f.jsonl:1: column dec: 1e-3: it has digits beyond the scale of decimal(10,2)`},
	{"decimal size", `{"dec":"100000000"}`, `f.jsonl:1: column dec: "100000000": it does not fit decimal(10,2)`},
	{"decimal huge exponent", `{"dec":1e999999999999999999999}`, `f.jsonl:1: column dec: 1e999999999999999999999: it does not fit decimal(10,2)`},
	{"decimal of 39 digits", `{"big":"100000000000000000000000000000000000000"}`, `f.jsonl:1: column big: "100000000000000000000000000000000000000": it does not fit decimal(38,0)`},
	{"decimal many digits behind", `{"dec":0.10000000000000000000000000000000000000000000001}`, `f.jsonl:1: column dec: 0.10000000000000000000000000000000000000000000001: it has digits beyond the scale of decimal(10,2)`},
	{"decimal text", `{"dec":" 1"}`, `f.jsonl:1: column dec: " 1": decimal(10,2) takes a number`},
	{"decimal empty", `{"dec":""}`, `f.jsonl:1: column dec: "": decimal(10,2) takes a number`},
	{"decimal true", `{"dec":true}`, `f.jsonl:1: column dec: true: decimal(10,2) takes a JSON number or a string that holds one`},
	{"binary upper case", `{"bin":"AB"}`, `f.jsonl:1: column bin: "AB": a binary takes a string of lower-case hexadecimal digits, two for each byte`},
	{"binary odd", `{"bin":"abc"}`, `f.jsonl:1: column bin: "abc": a binary takes a string of lower-case hexadecimal digits, two for each byte`},
	{"date format", `{"date":"2024-1-1"}`, `f.jsonl:1: column date: "2024-1-1": a date takes a string YYYY-MM-DD`},
	{"no such day", `{"date":"2023-02-29"}`, `f.jsonl:1: column date: "2023-02-29": there is no such day`},
	{"date with time", `{"date":"2023-02-28T00:00:00"}`, `f.jsonl:1: column date: "2023-02-28T00:00:00": a date takes a string YYYY-MM-DD`},
	{"date out of range", `{"date":"+5881581-01-01"}`, `f.jsonl:1: column date: "+5881581-01-01": the date is out of range`},
	{"zone-less timestamp", `{"ts":"2024-01-01T00:00:00.000000"}`, `f.jsonl:1: column ts: "2024-01-01T00:00:00.000000": the timestamp has no zone: add Z or an offset, or state the zone of such timestamps`},
	{"nanoseconds", `{"ts":"2024-01-01T00:00:00.123456789Z"}`, `f.jsonl:1: column ts: "2024-01-01T00:00:00.123456789Z": it has digits below the microsecond`},
	{"hour 24", `{"ts":"2024-01-01T24:00:00Z"}`, `f.jsonl:1: column ts: "2024-01-01T24:00:00Z": there is no such time of day`},
	{"leap second", `{"ts":"2016-12-31T23:59:60Z"}`, `f.jsonl:1: column ts: "2016-12-31T23:59:60Z": there is no such time of day`},
	{"timestamp as number", `{"ts":1704067200}`, `f.jsonl:1: column ts: 1704067200: a timestamp takes a string YYYY-MM-DDTHH:MM:SS.ffffffZ`},
	{"timestamp without time", `{"ts":"2024-01-01"}`, `f.jsonl:1: column ts: "2024-01-01": a timestamp takes a string YYYY-MM-DDTHH:MM:SS.ffffffZ`},
	{"short offset", `{"ts":"2024-01-01T00:00:00+02"}`, `f.jsonl:1: column ts: "2024-01-01T00:00:00+02": a timestamp takes a string YYYY-MM-DDTHH:MM:SS.ffffffZ`},
	{"timestamp out of range", `{"ts":"+294247-01-10T04:00:54.775808Z"}`, `f.jsonl:1: column ts: "+294247-01-10T04:00:54.775808Z": the time is out of range`},
	{"zone for ntz", `{"ntz":"2024-01-01T00:00:00Z"}`, `f.jsonl:1: column ntz: "2024-01-01T00:00:00Z": a timestamp_ntz takes no zone`},
	{"void", `{"void":1}`, `f.jsonl:1: column void: 1: a void column takes only null`},
	{"element", `{"list":[1,"2"]}`, `f.jsonl:1: column list.element: "2": a long takes a JSON integer`},
	{"null element", `{"full":[1,null]}`, `f.jsonl:1: column full.element: null: it is declared not null`},
	{"object for a list", `{"list":{}}`, `f.jsonl:1: column list: {}: an array takes a JSON array`},
	{"list comma", `{"list":[1,]}`, `f.jsonl:1: column list.element: ]}: malformed JSON: invalid character ']' at start of value`},
	{"list cut", `{"list":[1`, `f.jsonl:1: column list: malformed JSON: the line ends where a comma or the end of the array was expected`},
	{"struct field missing", `{"st":{"y":["a"]}}`, `f.jsonl:1: column st.x: it is declared not null and is missing`},
	{"struct field null", `{"st":{"x":null}}`, `f.jsonl:1: column st.x: null: it is declared not null`},
	{"struct unknown field", `{"st":{"x":1,"z":1}}`, `f.jsonl:1: column st: "z": unknown field`},
	{"struct other case twice", `{"st":{"x":1,"X":1}}`, `f.jsonl:1: column st.x: "X": it names the same column as "x"`},
	{"array for a struct", `{"st":[1]}`, `f.jsonl:1: column st: [1]: a struct takes a JSON object`},
	{"object for a map", `{"map":{"a":1}}`, `f.jsonl:1: column map: {"a":1}: a map takes {"$map":[[key,value],…]}`},
	{"empty object for a map", `{"map":{}}`, `f.jsonl:1: column map: {}: a map takes {"$map":[[key,value],…]}`},
	{"map with a null key", `{"map":{"$map":[[null,1]]}}`, `f.jsonl:1: column map.key: null: it is declared not null`},
	{"map with a short entry", `{"map":{"$map":[["a"]]}}`, `f.jsonl:1: column map: ["a"]: a map takes {"$map":[[key,value],…]}`},
	{"map with a long entry", `{"map":{"$map":[["a",1,2]]}}`, `f.jsonl:1: column map: ["a",1,2]: a map takes {"$map":[[key,value],…]}`},
	{"map with more", `{"map":{"$map":[],"x":1}}`, `f.jsonl:1: column map: {"$map":[],"x":1}: a map takes {"$map":[[key,value],…]}`},
	{"map key twice", "{\"id\":1}\n\n{\"map\":{\"$map\":[[\"a\",1],[\"b\",2],[\"\\u0061\",3]]}}", `f.jsonl:3: column map: a: the key stands twice in one map`},
	{"after good lines", "{\"id\":1}\r\n  \n{\"id\":2}\n{\"id\":true}\n", `f.jsonl:4: column id: true: a long takes a JSON integer`},
	{"long value is cut", `{"id":"` + strings.Repeat("ä", 100) + `"}`, `f.jsonl:1: column id: "` + strings.Repeat("ä", 39) + `…: a long takes a JSON integer`},
}

func TestReadRefusesWhatCannotBeStoredAsMeant(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			f, err := changefile.Read(context.Background(), changefile.FromBytes("f.jsonl", []byte(c.in)), &changefile.Options{Schema: everyType()})
			var ie *changefile.InputError
			if !errors.As(err, &ie) || f != nil {
				t.Fatalf("%s: read as %v, %v", c.in, f, err)
			}
			if err.Error() != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.in, err, c.want)
			}
		})
	}
}

// Each input is one row, read back as the JSON beside it (NULL columns left out).
var accepted = []struct{ name, in, want string }{
	{"empty object", `{}`, `{}`},
	{"spaces", " \t{ \"id\" :\t1 , \"str\" : \"x\" } \r", `{"id":1,"str":"x"}`},
	{"byte order mark", "\ufeff{\"id\":1}", `{"id":1}`},
	{"other case", `{"ID":1,"Str":"x"}`, `{"id":1,"str":"x"}`},
	{"name with escapes", `{"\u0069\u0064":1}`, `{"id":1}`},
	{"explicit null", `{"id":null,"void":null,"st":null}`, `{}`},
	{"extreme longs", `{"id":-9223372036854775808}`, `{"id":-9223372036854775808}`},
	{"most", `{"id":9223372036854775807,"int":-2147483648,"short":32767,"byte":-128}`, `{"byte":-128,"short":32767,"int":-2147483648,"id":9223372036854775807}`},
	{"above 2^53", `{"id":9007199254740993}`, `{"id":9007199254740993}`},
	{"eighteen digits", `{"id":8838840643388017390}`, `{"id":8838840643388017390}`},
	{"minus zero", `{"id":-0,"double":-0.0,"float":-0}`, `{"id":0,"float":-0.0,"double":-0.0}`},
	{"floats", `{"float":1.1,"double":1}`, `{"float":1.1,"double":1.0}`},
	{"special floats", `{"float":"NaN","double":"-Infinity"}`, `{"float":"NaN","double":"-Infinity"}`},
	{"underflow rounds", `{"double":1e-400}`, `{"double":0.0}`},
	{"greatest float", `{"float":3.4028235e38}`, `{"float":3.4028235e+38}`},
	{"decimal as number", `{"dec":1.10,"big":12345678901234567890123456789012345678}`, `{"dec":"1.10","big":"12345678901234567890123456789012345678"}`},
	{"decimal zeros beyond the scale", `{"dec":"1.500000"}`, `{"dec":"1.50"}`},
	{"decimal exponent", `{"dec":1.5e3,"big":"1E37"}`, `{"dec":"1500.00","big":"10000000000000000000000000000000000000"}`},
	{"decimal negative", `{"dec":-0.01,"big":"-99999999999999999999999999999999999999"}`, `{"dec":"-0.01","big":"-99999999999999999999999999999999999999"}`},
	{"decimal negative zero", `{"dec":"-0.00"}`, `{"dec":"0.00"}`},
	{"decimal zero with a large exponent", `{"dec":0e99999999}`, `{"dec":"0.00"}`},
	{"strings", `{"str":"a\"\\\/\b\f\n\r\tA\ud83d\ude00ä"}`, `{"str":"a\"\\/\b\f\n\r\tA😀ä"}`},
	{"non-characters", `{"str":"\uffff\u0000\ufffd"}`, `{"str":"` + "\uffff" + `\u0000` + "\ufffd" + `"}`},
	{"binary", `{"bin":"00ff"}`, `{"bin":"00ff"}`},
	{"binary by escapes", `{"bin":"\u0030\u0030ff"}`, `{"bin":"00ff"}`},
	{"dates", `{"date":"0001-01-01"}`, `{"date":"0001-01-01"}`},
	{"far date", `{"date":"+5881580-07-11"}`, `{"date":"+5881580-07-11"}`},
	{"year before zero", `{"date":"-0044-03-15"}`, `{"date":"-0044-03-15"}`},
	{"leap day", `{"date":"2000-02-29"}`, `{"date":"2000-02-29"}`},
	{"timestamp", `{"ts":"2024-01-01T00:00:00.000001Z","ntz":"2024-01-01T23:59:59.999999"}`, `{"ts":"2024-01-01T00:00:00.000001Z","ntz":"2024-01-01T23:59:59.999999"}`},
	{"offset", `{"ts":"2024-01-01T00:00:00+05:30"}`, `{"ts":"2023-12-31T18:30:00.000000Z"}`},
	{"negative offset", `{"ts":"2024-01-01 00:00:00.5-08:00","ntz":"2024-01-01 00:00:00"}`, `{"ts":"2024-01-01T08:00:00.500000Z","ntz":"2024-01-01T00:00:00.000000"}`},
	{"zeros below the microsecond", `{"ts":"2024-01-01T00:00:00.123456000Z"}`, `{"ts":"2024-01-01T00:00:00.123456Z"}`},
	{"first instant", `{"ts":"-290308-12-21T19:59:05.224192Z"}`, `{"ts":"-290308-12-21T19:59:05.224192Z"}`},
	{"last instant", `{"ts":"+294247-01-10T04:00:54.775807Z"}`, `{"ts":"+294247-01-10T04:00:54.775807Z"}`},
	{"lists", `{"list":[ 1 , null ],"full":[]}`, `{"list":[1,null],"full":[]}`},
	{"map", `{"map": { "$map" : [ [ "a" , 1 ] , ["b",null] ] } }`, `{"map":{"$map":[["a",1],["b",null]]}}`},
	{"struct", `{"st":{"Y":["a",null],"x":1}}`, `{"st":{"x":1,"y":["a",null]}}`},
}

func TestReadAcceptsWhatIsExact(t *testing.T) {
	for _, c := range accepted {
		t.Run(c.name, func(t *testing.T) {
			f := read(t, "f.jsonl", []byte(c.in), &changefile.Options{Schema: everyType()})
			if got := withoutNulls(f); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

// withoutNulls is the first row of f as JSON without its NULL columns.
func withoutNulls(f *changefile.File) string {
	var parts []string
	rec := f.Records[0]
	for i, col := range rec.Columns() {
		if col.IsNull(0) || col.DataType().ID() == arrow.NULL {
			continue
		}
		parts = append(parts, `"`+rec.ColumnName(i)+`":`+rowfile.JSON(col, 0))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestReadUnknownFieldsAllowed(t *testing.T) {
	o := &changefile.Options{Schema: everyType(), AllowUnknown: true}
	f := read(t, "f.jsonl", []byte(`{"x":{"a":[1,{"b":null}]},"id":7,"y":"\n","z":1e9,"w":true,"st":{"q":[],"x":1}}`), o)
	if got, want := withoutNulls(f), `{"id":7,"st":{"x":1,"y":null}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for in, want := range map[string]string{
		`{"x":1,"x":2}`:          `f.jsonl:1: "x": the name stands twice in one object`,
		`{"x":{"a":1,"a":2}}`:    `f.jsonl:1: {"a":1,"a":2}}: malformed JSON: the name a stands twice in one object`,
		`{"x":[1,}`:              `f.jsonl:1: [1,}: malformed JSON: invalid character ',' at start of value`,
		`{"x":"` + "\xff" + `"}`: `f.jsonl:1: "\xff": invalid UTF-8`,
	} {
		if _, err := changefile.Read(context.Background(), changefile.FromBytes("f.jsonl", []byte(in)), o); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestReadZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zone data here: ", err)
	}
	for in, want := range map[string]string{
		`{"ts":"2024-07-01T12:00:00"}`:       `{"ts":"2024-07-01T10:00:00.000000Z"}`,
		`{"ts":"2024-01-01T12:00:00.25"}`:    `{"ts":"2024-01-01T11:00:00.250000Z"}`,
		`{"ts":"2024-01-01T12:00:00Z"}`:      `{"ts":"2024-01-01T12:00:00.000000Z"}`,
		`{"ts":"2024-03-31T01:59:59"}`:       `{"ts":"2024-03-31T00:59:59.000000Z"}`,
		`{"ts":"2024-03-31T02:30:00"}`:       `f.jsonl:1: column ts: "2024-03-31T02:30:00": the local time does not occur in Europe/Berlin`,
		`{"ts":"2024-03-31T03:00:00"}`:       `{"ts":"2024-03-31T01:00:00.000000Z"}`,
		`{"ts":"2024-10-27T01:59:59"}`:       `{"ts":"2024-10-26T23:59:59.000000Z"}`,
		`{"ts":"2024-10-27T02:30:00"}`:       `f.jsonl:1: column ts: "2024-10-27T02:30:00": the local time occurs twice in Europe/Berlin: add an offset`,
		`{"ts":"2024-10-27T02:30:00+01:00"}`: `{"ts":"2024-10-27T01:30:00.000000Z"}`,
		`{"ts":"2024-10-27T03:00:00"}`:       `{"ts":"2024-10-27T02:00:00.000000Z"}`,
	} {
		var got string
		if f, err := changefile.Read(context.Background(), changefile.FromBytes("f.jsonl", []byte(in)), &changefile.Options{Schema: everyType(), Zone: berlin}); err != nil {
			got = err.Error()
		} else {
			got = withoutNulls(f)
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestReadPresentAndLines(t *testing.T) {
	f := read(t, "f.jsonl", []byte("\n{\"id\":1}\n{\"Str\":null}\n\n\r\n{}"), &changefile.Options{Schema: everyType()})
	if diff := cmp.Diff(map[string]bool{"id": true, "str": true}, f.Present); diff != "" {
		t.Error(diff)
	}
	if got, want := []int64{f.Rows, f.Line(0), f.Line(1), f.Line(2)}, []int64{3, 2, 3, 6}; !cmp.Equal(got, want) {
		t.Errorf("rows and lines %v, want %v", got, want)
	}
	empty := read(t, "f.jsonl", []byte(" \n\n"), &changefile.Options{Schema: everyType()})
	if len(empty.Records) != 0 || empty.Rows != 0 || len(empty.Present) != 0 {
		t.Errorf("a file without rows was read as %+v", empty)
	}
}

func TestReadCutsBatches(t *testing.T) {
	const rows = changefile.BatchRows + 10
	f := read(t, "f.jsonl", []byte(strings.Repeat("{\"id\":1}\n\n", rows)), &changefile.Options{Schema: everyType()})
	if len(f.Records) != 2 || f.Records[0].NumRows() != changefile.BatchRows || f.Records[1].NumRows() != 10 || f.Rows != rows {
		t.Errorf("%d batches, %d rows", len(f.Records), f.Rows)
	}
	if f.Line(rows-1) != 2*rows-1 {
		t.Errorf("last row at line %d", f.Line(rows-1))
	}
}

func TestReadRefusesOptions(t *testing.T) {
	for name, o := range map[string]*changefile.Options{
		"f.csv":   {Schema: everyType()},
		"f":       {Schema: everyType()},
		"f.jsonl": nil,
	} {
		if f, err := changefile.Read(context.Background(), changefile.FromBytes(name, nil), o); err == nil {
			t.Errorf("%s: read as %v", name, f)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := changefile.Read(ctx, changefile.FromBytes("f.jsonl", []byte("{}")), &changefile.Options{Schema: everyType()}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read ended with %v", err)
	}
	missing := filepath.Join(t.TempDir(), "none.jsonl")
	if _, err := changefile.Read(context.Background(), changefile.FromFile("none.jsonl", missing), &changefile.Options{Schema: everyType()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
