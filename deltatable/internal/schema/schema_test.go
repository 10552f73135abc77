package schema

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
)

func TestSchemaStringsRoundTrip(t *testing.T) {
	for name, c := range map[string]struct{ in, out string }{
		"metadata is kept byte for byte": {
			`{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{ "delta.columnMapping.id": 1, "x":{"y":[1.50,null]},"__CHAR_VARCHAR_TYPE_STRING":"varchar(3)"}}]}`, "",
		},
		"all types": {
			`{"type":"struct","fields":[` + strings.Join([]string{
				`{"name":"a","type":"boolean","nullable":true,"metadata":{}}`, `{"name":"b","type":"byte","nullable":true,"metadata":{}}`,
				`{"name":"c","type":"short","nullable":true,"metadata":{}}`, `{"name":"d","type":"integer","nullable":true,"metadata":{}}`,
				`{"name":"e","type":"float","nullable":true,"metadata":{}}`, `{"name":"f","type":"double","nullable":true,"metadata":{}}`,
				`{"name":"g","type":"decimal(38,18)","nullable":true,"metadata":{}}`, `{"name":"h","type":"string","nullable":true,"metadata":{}}`,
				`{"name":"i","type":"binary","nullable":true,"metadata":{}}`, `{"name":"j","type":"date","nullable":true,"metadata":{}}`,
				`{"name":"k","type":"timestamp","nullable":true,"metadata":{}}`, `{"name":"l","type":"timestamp_ntz","nullable":true,"metadata":{}}`,
				`{"name":"m","type":"void","nullable":true,"metadata":{}}`, `{"name":"n","type":"variant","nullable":true,"metadata":{}}`,
				`{"name":"o","type":"interval day to second","nullable":true,"metadata":{}}`,
				`{"name":"p","type":{"type":"array","elementType":{"type":"map","keyType":"string","valueType":{"type":"struct","fields":[]},"valueContainsNull":false},"containsNull":false},"nullable":true,"metadata":{}}`,
			}, ",") + `]}`, "",
		},
		"tolerant forms": {
			` {"fields":[{"name":"a","type":"decimal","nullable":null},{"type":"decimal( 10 , 2 )","name":"b","metadata":null},{"name":"c","type":{"type":"variant"}},{"name":"d","type":{"type":"string"}},{"name":"e","type":{"type":"array","elementType":"long"}}],"type":"struct","extra":1}`,
			`{"type":"struct","fields":[{"name":"a","type":"decimal(10,0)","nullable":true,"metadata":{}},{"name":"b","type":"decimal(10,2)","nullable":true,"metadata":{}},{"name":"c","type":{"type":"variant"},"nullable":true,"metadata":{}},{"name":"d","type":"string","nullable":true,"metadata":{}},{"name":"e","type":{"type":"array","elementType":"long","containsNull":true},"nullable":true,"metadata":{}}]}`,
		},
		"names of every kind": {`{"type":"struct","fields":[{"name":"a b,;{}()\n\t=\"\\é日","type":"long","nullable":true,"metadata":{}}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse(c.in)
			if err != nil {
				t.Fatal(err)
			}
			want := c.out
			if want == "" {
				want = c.in
			}
			if d := cmp.Diff(want, s.JSON()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			again, err := Parse(s.JSON())
			if err != nil || again.JSON() != s.JSON() {
				t.Errorf("not stable: %v", err)
			}
		})
	}
}

func TestSchemaStringsThatAreNone(t *testing.T) {
	for _, c := range []string{
		``, `null`, `"long"`, `[]`, `{"type":"struct","fields":[{"name":"a"}]}`, `{"type":"struct","fields":[{"type":"long"}]}`,
		`{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"A","type":"long"}]}`, `{"type":"struct","fields":[{"name":"","type":"long"}]}`,
		`{"type":"struct","fields":[{"name":"a","type":"decimal(39,0)"}]}`, `{"type":"struct","fields":[{"name":"a","type":"decimal(5,6)"}]}`,
		`{"type":"struct","fields":[{"name":"a","type":"long","metadata":[]}]}`, `{"type":"struct","fields":[{"name":"a","type":{"type":"array"}}]}`,
		`{"type":"struct","fields":[{"name":"a","type":5}]}`,
		strings.Repeat(`{"type":"array","elementType":`, 200) + `"long"` + strings.Repeat(`}`, 200),
	} {
		if s, err := Parse(c); err == nil {
			t.Errorf("%.100s: %s", c, s.JSON())
		}
	}
}

func TestTypesThatAreNotHeldAreRefusedByName(t *testing.T) {
	for _, typ := range []string{`"variant"`, `{"type":"variant"}`, `"geometry(EPSG:4326)"`, `"interval year to month"`, `{"type":"udt","class":"x"}`} {
		s, err := Parse(`{"type":"struct","fields":[{"name":"s","type":{"type":"struct","fields":[{"name":"x","type":` + typ + `}]}}]}`)
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		_, err = s.Arrow()
		var u *UnsupportedTypeError
		if !errors.As(err, &u) || u.Column != "s.x" || !strings.Contains(typ, u.Type) {
			t.Errorf("%s: %v", typ, err)
		}
		if s.CheckCreate() == nil {
			t.Errorf("%s may be created", typ)
		}
	}
}

func TestDDL(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"a long, b string not null", "struct<a:long,b:string not null>"},
		{"a BIGINT,b Int,c TINYINT , d smallint\n, e real", "struct<a:long,b:int,c:byte,d:short,e:float>"},
		{"a decimal, b numeric(5), c DEC ( 38 , 10 )", "struct<a:decimal(10,0),b:decimal(5,0),c:decimal(38,10)>"},
		{"a array<array<int>>, m map<string,struct<x:int,`y z` date not null>>", "struct<a:array<array<int>>,m:map<string,struct<x:int,`y z`:date not null>>>"},
		{"`odd name` timestamp_ntz, `a``b` void, ü_1 timestamp_ltz", "struct<`odd name`:timestamp_ntz,`a``b`:void,`ü_1`:timestamp>"},
		{"a: string, date date comment 'it''s'", "struct<a:string,date:date>"},
		{"a varchar(10), b char(3) not null comment \"x\"", "struct<a:string,b:string not null>"},
	} {
		s, err := ParseDDL(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		got := (&Type{Kind: Struct, Fields: s.Fields()}).String()
		if got != c.out {
			t.Errorf("%s:\ngot  %s\nwant %s", c.in, got, c.out)
		}
		back, err := Parse(s.JSON())
		if err != nil || back.JSON() != s.JSON() {
			t.Errorf("%s: JSON does not come back: %v", c.in, err)
		}
	}
	s, err := ParseDDL(`v char(3) not null comment 'it''s "x"'`)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"struct","fields":[{"name":"v","type":"string","nullable":false,"metadata":{"__CHAR_VARCHAR_TYPE_STRING":"char(3)","comment":"it's \"x\""}}]}`
	if d := cmp.Diff(want, s.JSON()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDDLErrorsSayWhere(t *testing.T) {
	for _, c := range []struct {
		in     string
		column int
		msg    string
	}{
		{"", 1, "name of a column"},
		{"a", 2, "expected a type"},
		{"a long,", 8, "name of a column"},
		{"é long b", 8, "comma"},
		{"a lung", 3, "no type lung"},
		{"a variant", 3, "variant is not supported"},
		{"a decimal(39)", 3, "precision"},
		{"a array<int", 12, `'>'`},
		{"a long, A int", 9, "occurs twice"},
		{"a struct<x:int,X:int>", 16, "occurs twice"},
		{"a map<map<int,int>,int>", 3, "key of a map"},
		{"`a long", 1, "not closed"},
		{"a varchar", 10, `'('`},
		{"a varchar(0)", 3, "at least 1"},
		{"a long not", 11, "NULL after NOT"},
		{"a long default 5", 8, "DEFAULT is not supported"},
		{"a " + strings.Repeat("array<", 200), 609, "deeper"},
	} {
		_, err := ParseDDL(c.in)
		var e *DDLError
		if !errors.As(err, &e) || e.Column() != c.column || !strings.Contains(e.Error(), c.msg) {
			t.Errorf("%.40q: %v", c.in, err)
		}
	}
}

func FuzzParseDDL(f *testing.F) {
	for _, s := range []string{"a long, b string not null", "m map<string,array<struct<x:int>>>", "`a``b` decimal(10,2) comment 'x'", "v varchar(3)", "é int"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseDDL(text)
		if err != nil {
			_ = err.Error()
			return
		}
		back, err := Parse(s.JSON())
		if err != nil {
			t.Fatalf("%q: %v", s.JSON(), err)
		}
		if back.JSON() != s.JSON() {
			t.Fatalf("%s became %s", s.JSON(), back.JSON())
		}
		parts := make([]string, 0, len(s.Fields()))
		for _, f := range s.Fields() {
			parts = append(parts, quoteName(f.Name)+" "+f.Type.String())
		}
		if _, err := ParseDDL(strings.Join(parts, ", ")); err != nil {
			t.Fatalf("%q: %v", parts, err)
		}
	})
}

func TestArrowTypesAreCanonicalAndComeBack(t *testing.T) {
	ds, err := ParseDDL("a boolean, b byte, c short, d int not null, e long, f float, g double, h decimal(20,3), i string, j binary, k date, l timestamp, m timestamp_ntz, n void, o array<int>, p map<string,long>, q struct<x:int not null>, r varchar(5)")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ds.Arrow()
	if err != nil {
		t.Fatal(err)
	}
	f := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	d := f("d", arrow.PrimitiveTypes.Int32)
	d.Nullable = false
	r := f("r", arrow.BinaryTypes.String)
	r.Metadata = arrow.NewMetadata([]string{CharVarcharKey}, []string{"varchar(5)"})
	want := arrow.NewSchema([]arrow.Field{
		f("a", arrow.FixedWidthTypes.Boolean), f("b", arrow.PrimitiveTypes.Int8), f("c", arrow.PrimitiveTypes.Int16), d, f("e", arrow.PrimitiveTypes.Int64),
		f("f", arrow.PrimitiveTypes.Float32), f("g", arrow.PrimitiveTypes.Float64), f("h", &arrow.Decimal128Type{Precision: 20, Scale: 3}),
		f("i", arrow.BinaryTypes.String), f("j", arrow.BinaryTypes.Binary), f("k", arrow.FixedWidthTypes.Date32),
		f("l", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}), f("m", &arrow.TimestampType{Unit: arrow.Microsecond}), f("n", arrow.Null),
		f("o", arrow.ListOfField(f("element", arrow.PrimitiveTypes.Int32))), f("p", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)),
		f("q", arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int32})), r,
	}, nil)
	if !got.Equal(want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	back, err := FromArrow(got)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ds.JSON(), back.JSON()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Field problem H12: other Arrow forms of one Delta type are that type.
func TestOtherArrowFormsAreTheSameDeltaType(t *testing.T) {
	for _, c := range []struct {
		in   arrow.DataType
		want string
	}{
		{arrow.BinaryTypes.LargeString, "string"},
		{arrow.BinaryTypes.StringView, "string"},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.LargeString}, "string"},
		{arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64), "long"},
		{arrow.BinaryTypes.LargeBinary, "binary"},
		{&arrow.FixedSizeBinaryType{ByteWidth: 4}, "binary"},
		{arrow.BinaryTypes.BinaryView, "binary"},
		{&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Asia/Tokyo"}, "timestamp"},
		{&arrow.TimestampType{Unit: arrow.Second}, "timestamp_ntz"},
		{arrow.FixedWidthTypes.Date64, "date"},
		{arrow.PrimitiveTypes.Uint8, "short"},
		{arrow.PrimitiveTypes.Uint32, "long"},
		{&arrow.Decimal256Type{Precision: 38, Scale: 4}, "decimal(38,4)"},
		{&arrow.Decimal32Type{Precision: 5, Scale: 1}, "decimal(5,1)"},
		{arrow.LargeListOf(arrow.BinaryTypes.StringView), "array<string>"},
		{arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int32), "array<int>"},
		{arrow.StructOf(arrow.Field{Name: "x", Type: arrow.BinaryTypes.LargeString, Nullable: true}), "struct<x:string>"},
	} {
		s, err := FromArrow(arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.in, Nullable: true}}, nil))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if got := s.Fields()[0].Type.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
	for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Duration_s, &arrow.Decimal256Type{Precision: 50}, &arrow.Decimal128Type{Precision: 5, Scale: -2}, arrow.FixedWidthTypes.Float16} {
		_, err := FromArrow(arrow.NewSchema([]arrow.Field{{Name: "c", Type: typ}}, nil))
		var u *UnsupportedTypeError
		if !errors.As(err, &u) || u.Column != "c" {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestNamesThatNewTablesMayNotHave(t *testing.T) {
	for _, c := range "ab ,;{}()\n\t=.é%" {
		name := "a" + string(c) + "b"
		s, err := New([]Field{{Name: name, Type: Type{Kind: Long}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.CheckCreate() != nil, strings.ContainsRune(forbidden, c); got != want {
			t.Errorf("%q refused: %v, want %v", name, got, want)
		}
	}
	for _, ddl := range []string{"a void", "a struct<x:void>, b int", "a array<void>, b int", "a map<int,struct<x:void,y:int>>, b int", "s struct<`x y`:int>"} {
		s, err := ParseDDL(ddl)
		if err != nil {
			t.Fatal(err)
		}
		if s.CheckCreate() == nil {
			t.Errorf("%s may be created", ddl)
		}
	}
	s, err := ParseDDL("a struct<x:void,y:int>, b void")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CheckCreate(); err != nil {
		t.Error(err)
	}
}

func TestCharVarcharStore(t *testing.T) {
	for _, c := range []struct {
		c        CharVarchar
		in, want string
		bad      bool
	}{
		{CharVarchar{false, 3}, "日本語", "日本語", false},
		{CharVarchar{false, 3}, "abcd", "", true},
		{CharVarchar{false, 3}, "ab    ", "ab ", false},
		{CharVarchar{true, 3}, "a", "a  ", false},
		{CharVarchar{true, 3}, "abc ", "abc", false},
		{CharVarchar{true, 3}, "abcd", "", true},
	} {
		got, err := c.c.Store(c.in)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s of %q: %q, %v", c.c, c.in, got, err)
		}
		if err == nil && c.c.Check(got) != nil {
			t.Errorf("%s of %q: the stored form does not pass", c.c, c.in)
		}
	}
}
