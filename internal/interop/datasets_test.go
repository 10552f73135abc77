package interop

import "encoding/json"

// allTypes has a column of every type, with the values at which writers and
// readers have been seen to differ: extremes, NaN and infinities, -0.0, integers
// beyond 2^53, empty and NULL collections, dates at both ends of the calendar.
func allTypes() *dataset {
	return (&dataset{
		columns: [][2]string{
			{"id", "long"},
			{"b", "boolean"},
			{"i8", "byte"},
			{"i16", "short"},
			{"i32", "int"},
			{"f", "float"},
			{"d", "double"},
			{"dec", "decimal(9,2)"},
			{"dec18", "decimal(18,3)"},
			{"big", "decimal(38,10)"},
			{"s", "string"},
			{"bin", "binary"},
			{"dt", "date"},
			{"ts", "timestamp"},
			{"tn", "timestamp_ntz"},
			{"arr", "array<int>"},
			{"m", "map<string,long>"},
			{"st", "struct<x:int,y:array<string>>"},
			{"al", "array<struct<k:string,v:decimal(5,1)>>"},
		},
		rows: rows{
			{
				"id": 1, "b": true, "i8": -128, "i16": -32768, "i32": -2147483648, "f": json.Number("0.1"), "d": json.Number("0.1"),
				"dec": "1234567.90", "dec18": "-123456789012345.678", "big": "1234567890123456789012345678.0123456789",
				"s": "héllo 😀", "bin": "00ff10", "dt": "1969-12-31", "ts": "2024-02-29T23:59:59.999999Z", "tn": "1999-12-31T23:59:59.000001",
				"arr": []any{1, nil, 3}, "m": pairs("a", 1, "b", nil), "st": map[string]any{"x": 1, "y": []any{"p", nil}},
				"al": []any{map[string]any{"k": "z", "v": "1.5"}, nil},
			},
			{
				"id": 2, "b": false, "f": "NaN", "d": "NaN", "s": "", "bin": "", "arr": []any{}, "m": pairs(),
				"st": map[string]any{"x": nil, "y": nil}, "al": []any{},
			},
			{
				"id": 3, "i8": 127, "i16": 32767, "i32": 2147483647, "f": "Infinity", "d": "-Infinity", "dec": "-0.01",
				"dt": "0001-01-01", "ts": "1900-01-01T00:00:00.000000Z", "tn": "0001-01-01T00:00:00.000000",
			},
			{
				"id": 9007199254740993, "f": json.Number("-0.0"), "d": json.Number("-0.0"), "dec": "0.00",
				"dt": "9999-12-31", "ts": "2261-01-01T12:34:56.789012Z", "tn": "9999-12-31T23:59:59.999999",
			},
			{"id": -9223372036854775808, "d": json.Number("1.7976931348623157e308"), "f": json.Number("3.4028235e38")},
		},
	}).complete()
}

// pairs is a map value.
func pairs(entries ...any) map[string]any {
	list := []any{}
	for i := 0; i < len(entries); i += 2 {
		list = append(list, []any{entries[i], entries[i+1]})
	}
	return map[string]any{"$map": list}
}

// oddPartitions has partition values with every character that some writer
// escapes, in one of its two layers: the folder's name and the log's path.
func oddPartitions() *dataset {
	d := &dataset{
		columns:     [][2]string{{"id", "long"}, {"p", "string"}, {"q", "date"}},
		partitionBy: []string{"p", "q"},
	}
	values := []any{
		"a b", "x/y", "50%", "a%20b", "=", "é😀", "?#&", `"q"`, "it's", "tab\there", `back\slash`, ":", "{}[]^", ".", "..",
		" lead", "trail ", "A", "a", "1", "null", "new\nline", "\x7f", "+", "~`$!@*();,<>|", nil,
	}
	for i, v := range values {
		day := any(nil)
		if i%5 != 0 {
			day = "2024-01-0" + string(rune('1'+i%9))
		}
		d.rows = append(d.rows, row{"id": i, "p": v, "q": day})
	}
	return d
}

// typedPartitions partitions by every type that Delta allows.
func typedPartitions() *dataset {
	return (&dataset{
		columns: [][2]string{
			{"id", "long"},
			{"pb", "boolean"},
			{"pi", "int"},
			{"pl", "long"},
			{"pdec", "decimal(12,3)"},
			{"pd", "date"},
			{"pt", "timestamp"},
			{"pn", "timestamp_ntz"},
			{"ps", "string"},
		},
		partitionBy: []string{"pb", "pi", "pl", "pdec", "pd", "pt", "pn", "ps"},
		rows: rows{
			{
				"id": 1, "pb": true, "pi": -1, "pl": 9007199254740993, "pdec": "-12.340", "pd": "1969-12-31",
				"pt": "2024-03-31T01:30:00.000001Z", "pn": "2024-03-31T02:30:00.123000", "ps": "x",
			},
			{"id": 2, "pb": false, "pt": "1969-12-31T23:59:59.999999Z", "pn": "2024-01-01T00:00:00.000000"},
			{"id": 3},
		},
	}).complete()
}

// stateTable has the columns of a state table with the default roles.
func stateTable() *dataset {
	return &dataset{columns: [][2]string{
		{"entity_id", "string"},
		{"source_version", "long"},
		{"status", "string"},
		{"value", "string"},
	}}
}

// changes has the columns of a batch with the default roles.
func changes(rs ...row) *dataset {
	return &dataset{
		columns: [][2]string{
			{"change_id", "string"},
			{"entity_id", "string"},
			{"source_version", "long"},
			{"operation", "string"},
			{"value", "string"},
		},
		rows: rs,
	}
}
