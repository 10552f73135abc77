package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
)

// TestModesLoseAnswers is TestLostAnswers for MERGE and REPLACE: a winner takes
// version 2 with rows that our decisions meet, and then answers of our put of
// version 3 are lost (R7, R8).
func TestModesLoseAnswers(t *testing.T) {
	lost := blobstoretest.Fault{Kind: blobstoretest.LoseRequest}
	for _, mode := range modesUnderFaults {
		for _, c := range []struct {
			name   string
			faults func(m *modesFaulty) map[int]blobstoretest.Fault // of the put of version 3
			reads  map[int]bool                                     // read-backs of version 3 that fail
			puts   int
			second bool // another takes version 3
		}{
			{name: "the answer is lost", puts: 2, faults: func(*modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.LoseAnswer}}
			}},
			{name: "the request is lost", puts: 2, faults: func(*modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: lost}
			}},
			{name: "half of the request is sent", puts: 2, faults: func(*modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.Half}}
			}},
			{name: "the answer is lost, and two read-backs", puts: 4, reads: map[int]bool{1: true, 2: true}, faults: func(*modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.LoseAnswer}}
			}},
			{name: "the put lands before the second one", puts: 2, faults: func(m *modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.Late}, 2: before(blobstoretest.None, func() { must(m.t, m.state.Land()) })}
			}},
			{name: "the put lands late and meets the second one", puts: 2, faults: func(*modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.Late}}
			}},
			{name: "all puts but the last are lost", puts: 5, faults: func(*modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: lost, 2: lost, 3: lost, 4: lost}
			}},
			{name: "the last put's answer is lost, the last look finds it", puts: 5, faults: func(*modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: lost, 2: lost, 3: lost, 4: lost, 5: {Kind: blobstoretest.LoseAnswer}}
			}},
			{name: "another takes the version while our put is on its way", puts: 2, second: true, faults: func(m *modesFaulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.Late}, 2: before(blobstoretest.None, func() { m.other(m.mode.second...) })}
			}},
		} {
			t.Run(mode.name+": "+c.name, func(t *testing.T) {
				m := newModesFaulty(t, mode)
				reads := 0
				first := onCommit(2, map[int]blobstoretest.Fault{1: before(blobstoretest.None, func() { m.other(mode.winner...) })})
				third := onCommit(3, c.faults(m))
				m.state.Decide = func(call blobstoretest.Call) blobstoretest.Fault {
					if call.Op == blobstoretest.OpRead && call.Key == logKey(3) {
						if reads++; c.reads[reads] {
							return blobstoretest.Fault{Kind: blobstoretest.Fail}
						}
					}
					if fault := first(call); fault.Wait != nil {
						return fault
					}
					return third(call)
				}
				rep, err := mode.run(m, m.env, m.mine(), "")
				if err != nil {
					t.Fatal(err)
				}
				must(t, m.state.Land())
				puts := m.puts.bytes[logKey(3)]
				if len(puts) != c.puts {
					t.Errorf("version 3 was put %d times, want %d", len(puts), c.puts)
				}
				for _, p := range puts {
					if !bytes.Equal(p, puts[0]) {
						t.Errorf("version 3 was put with other bytes")
					}
				}
				rows, outcomes, landed := mode.rows, mode.outcomes, 3
				if c.second {
					rows, outcomes, landed = mode.secondRows, mode.secondOutcomes, 4
				}
				if rep.Version == nil || *rep.Version != deltatable.Version(landed) {
					t.Fatalf("landed as version %v, want %d", rep.Version, landed)
				}
				m.attemptsAreAnew(2, landed, outcomes)
				if diff := cmp.Diff(at(rep.Version, outcomes), m.outcomeLines(rep.Run)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				m.holds(rows)
			})
		}
	}
}

// TestModesLeaveUndecidedCommits is TestUndecidedCommits for MERGE and REPLACE:
// nothing is deleted while it is not known whether the entry is there, and the
// batch ends up in the table once, with --resume and without.
func TestModesLeaveUndecidedCommits(t *testing.T) {
	for _, mode := range modesUnderFaults {
		for _, kind := range []blobstoretest.FaultKind{blobstoretest.LoseRequest, blobstoretest.Half, blobstoretest.Late, blobstoretest.LoseAnswer} {
			for _, resume := range []bool{true, false} {
				for _, meanwhile := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s: kind %d, resume %v, a winner meanwhile %v", mode.name, kind, resume, meanwhile), func(t *testing.T) {
						m := newModesFaulty(t, mode)
						m.undecided(kind, resume, meanwhile)
					})
				}
			}
		}
	}
}

func (m *modesFaulty) undecided(kind blobstoretest.FaultKind, resume, meanwhile bool) {
	t, mode := m.t, m.mode
	t.Helper()
	m.state.Decide = func(call blobstoretest.Call) blobstoretest.Fault {
		switch {
		case call.Op == blobstoretest.OpCreate && call.Key == logKey(2):
			return blobstoretest.Fault{Kind: kind}
		case call.Op == blobstoretest.OpRead && call.Key == logKey(2):
			return blobstoretest.Fault{Kind: blobstoretest.Fail} // no read-back succeeds
		}
		return blobstoretest.Fault{}
	}
	file := m.mine()
	rep, err := mode.run(m, m.env, file, "")
	var undecided *deltatable.UndecidedError
	if !errors.As(err, &undecided) || rep == nil || rep.Version != nil {
		t.Fatalf("got %+v, %v, want an undecided commit", rep, err)
	}
	if want := rep.Run + "@2"; pipeline.ResumePoint(undecided) != want {
		t.Errorf("the way on is %s, want %s", pipeline.ResumePoint(undecided), want)
	}
	puts := m.puts.bytes[logKey(2)]
	for _, p := range puts {
		if !bytes.Equal(p, puts[0]) {
			t.Errorf("version 2 was put with other bytes")
		}
	}
	m.entryFilesAreThere(puts[0])
	meanwhile = meanwhile && kind != blobstoretest.LoseAnswer
	if meanwhile {
		m.other(mode.winner...) // takes version 2: what lands later does nothing
	}
	must(t, m.state.Land())
	m.state.Decide = nil
	point := ""
	if resume {
		point = pipeline.ResumePoint(undecided)
	}
	again, err := mode.run(m, m.env, file, point)
	if err != nil {
		t.Fatal(err)
	}
	landed := !meanwhile && (kind == blobstoretest.LoseAnswer || kind == blobstoretest.Late)
	rows, outcomes := mode.alone, mode.aloneOutcomes
	switch {
	case meanwhile:
		rows, outcomes = mode.rows, mode.outcomes
	case landed && resume && (again.Run != rep.Run || again.Version == nil || *again.Version != 2):
		t.Errorf("resumed as %+v, want run %s at version 2", again, rep.Run)
	case landed && !resume:
		outcomes = mode.again
	}
	if diff := cmp.Diff(rows, m.rows()); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	checkComplete(t, m.plain, m.url)
	var got []string
	for _, line := range m.outcomeLines(again.Run) {
		got = append(got, line[strings.LastIndex(line, " ")+1:])
	}
	if diff := cmp.Diff(outcomes, got); diff != "" {
		t.Errorf("outcomes of the run that went on (-want +got):\n%s", diff)
	}
	if landed {
		two := deltatable.Version(2)
		if diff := cmp.Diff(at(&two, mode.aloneOutcomes), m.outcomeLines(rep.Run)); diff != "" {
			t.Errorf("outcomes of the run that was undecided (-want +got):\n%s", diff)
		}
	}
}

// TestModesFailCleanly has a data file's write fail half-way, or its answer get
// lost: nothing is committed, nothing is left but the file whose answer was lost,
// and the batch can be folded again.
func TestModesFailCleanly(t *testing.T) {
	for _, mode := range modesUnderFaults {
		for _, c := range []struct {
			op   string
			kind blobstoretest.FaultKind
		}{
			{blobstoretest.OpWriter, blobstoretest.Fail},
			{blobstoretest.OpWrite, blobstoretest.Half},
			{blobstoretest.OpClose, blobstoretest.LoseRequest},
			{blobstoretest.OpClose, blobstoretest.LoseAnswer},
		} {
			t.Run(fmt.Sprintf("%s: %s, kind %d", mode.name, c.op, c.kind), func(t *testing.T) {
				m := newModesFaulty(t, mode)
				n := 0
				m.state.Decide = func(call blobstoretest.Call) blobstoretest.Fault {
					if call.Op != c.op || !strings.HasSuffix(call.Key, ".parquet") {
						return blobstoretest.Fault{}
					}
					if n++; n > 1 {
						return blobstoretest.Fault{}
					}
					return blobstoretest.Fault{Kind: c.kind}
				}
				file := m.mine()
				if _, err := mode.run(m, m.env, file, ""); !errors.Is(err, blobstoretest.ErrInjected) {
					t.Fatalf("got the error %v", err)
				}
				if len(m.puts.bytes[logKey(2)]) > 0 {
					t.Errorf("version 2 was put")
				}
				if c.kind == blobstoretest.LoseAnswer {
					m.removeStray()
				}
				m.holds([]string{"a x 1", "b x 1"})
				m.state.Decide = nil
				rep, err := mode.run(m, m.env, file, "")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(at(rep.Version, mode.aloneOutcomes), m.outcomeLines(rep.Run)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				m.holds(mode.alone)
			})
		}
	}
}
