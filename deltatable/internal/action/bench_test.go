package action

import (
	"fmt"
	"testing"
)

// manyAdds returns adds as writers make them, with statistics of four columns.
func manyAdds(n int) []Action {
	actions := make([]Action, n)
	day := make([]string, 30)
	for i := range day {
		day[i] = fmt.Sprintf("2024-01-%02d", i+1)
	}
	for i := range actions {
		actions[i].Add = &Add{
			Path:             fmt.Sprintf("day=%s/part-%05d-4c6f2d4e-9d1e-4d8c-8d8e-3b1c0a6f%04x-c000.snappy.parquet", day[i%30], i, i%65536),
			PartitionValues:  map[string]*string{"day": &day[i%30]},
			Size:             int64(1_000_000 + i),
			ModificationTime: 1_700_000_000_000 + int64(i),
			DataChange:       true,
			Stats: fmt.Sprintf(`{"numRecords":%d,"minValues":{"id":%d,"name":"aaaa","ts":"2024-01-02T03:04:05.678Z","v":1.5},`+
				`"maxValues":{"id":%d,"name":"zzzz","ts":"2024-02-02T03:04:05.678Z","v":99.5},"nullCount":{"id":0,"name":0,"ts":0,"v":3}}`, i, i*10, i*10+9),
		}
	}
	return actions
}

func BenchmarkDecode(b *testing.B) {
	const n = 100_000
	data, err := Encode(manyAdds(n))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		actions, err := Decode(data)
		if err != nil || len(actions) != n {
			b.Fatal(len(actions), err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "actions/s")
}

func BenchmarkEncode(b *testing.B) {
	const n = 100_000
	actions := manyAdds(n)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(actions); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "actions/s")
}
