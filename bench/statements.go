package main

import (
	"context"
	"fmt"
	"time"
)

// statements are MERGE statements that both engines carry out on the unguarded
// table: an upsert, and a sync whose BY SOURCE clause sees every file.
var statements = []struct{ name, sql string }{
	{"upsert", upsert},
	{"sync", upsert + ` WHEN NOT MATCHED BY SOURCE AND t.status = 'deleted' THEN DELETE`},
}

const upsert = `MERGE INTO target AS t USING source AS s ON t.entity_id = s.entity_id
WHEN MATCHED THEN UPDATE SET source_version = s.source_version, status = 'active', value = s.value
WHEN NOT MATCHED THEN INSERT (entity_id, source_version, status, value) VALUES (s.entity_id, s.source_version, 'active', s.value)`

// carryOut measures each statement on each engine with the second size of
// batches, the engines in turn, and compares the states that they leave.
func (h *harness) carryOut(ctx context.Context) error {
	n := h.o.changes[min(1, len(h.o.changes)-1)]
	for _, s := range statements {
		costs, states := map[string][]*cost{}, map[string]string{}
		engines := h.statementEngines(s.name, s.sql)
		for run := range h.o.repeat {
			for _, e := range engines {
				progress("%s of %d rows, run %d of %d, %s", s.name, n, run+1, h.o.repeat, e.name)
				c, state, err := h.mergeOnce(ctx, &e, n)
				if err != nil {
					return err
				}
				costs[e.name] = append(costs[e.name], c)
				states[state] = e.name
				if len(states) > 1 {
					return fmt.Errorf("%s of %d rows: results differ: %v", s.name, n, states)
				}
			}
		}
		for _, e := range engines {
			h.results = append(h.results, result{
				Task: fmt.Sprintf("MERGE statement, %s of %s rows", s.name, grouped(n)), Engine: e.name,
				Cost: median(costs[e.name]), Runs: h.o.repeat,
			})
		}
	}
	return nil
}

func (h *harness) statementEngines(name, sql string) []engine {
	theirs := func(mode string) func(ctx context.Context, table, changes string) (*cost, error) {
		return func(ctx context.Context, table, changes string) (*cost, error) {
			var said struct{ Seconds float64 }
			c, err := h.ask(ctx, &said, "statement", table, changes, name, mode)
			if err != nil {
				return nil, err
			}
			c.Inner = time.Duration(said.Seconds * float64(time.Second))
			return c, nil
		}
	}
	ours := func(ctx context.Context, table, changes string) (*cost, error) {
		c, _, err := measure(ctx, h.deltafold, "merge", table, sql, "--source", "source="+changes, "--allow-unknown", "--quiet")
		return c, err
	}
	return []engine{
		{name: "deltafold", base: h.table, fold: ours},
		{name: "delta-rs, streamed (its default)", base: h.table, fold: theirs("streamed")},
		{name: "delta-rs, not streamed", base: h.table, fold: theirs("whole")},
	}
}
