package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// watermark is the state version up to which the table is known to be complete.
func (o *outcomesTable) watermark() (int64, bool) {
	if o.snap == nil {
		return 0, false
	}
	return o.snap.AppVersion(o.app)
}

// repair commits the outcomes that state commits up to the snapshot name and
// that the table lacks: their writers died in between, or are just about to do
// it themselves (merge-semantics 6). A file that is not in the table's folder
// is never named (I2): it lies where the outcomes were kept before, or is lost,
// which lost tells.
func (o *outcomesTable) repair(ctx context.Context, state *deltatable.Table, snap *deltatable.Snapshot) error {
	if o == nil || snap == nil {
		return nil
	}
	o.app = repairedApp + snap.Metadata().ID
	from := deltatable.Version(0)
	if v, ok := o.watermark(); ok {
		from = deltatable.Version(v) + 1
	}
	for c, err := range commitsBack(ctx, state, snap, from) {
		if err != nil {
			return err
		}
		v := c.version
		p, err := pendingOf(c.info)
		if err != nil {
			return fmt.Errorf("version %d: %w", v, err)
		}
		if p == nil || o.has(p) {
			continue
		}
		there, err := o.present(ctx, p)
		if err != nil {
			return fmt.Errorf("version %d: %w", v, err)
		}
		if !there {
			if p.Location == o.location() {
				o.lost = append(o.lost, fmt.Sprintf("%s (version %d)", p.run, v))
			}
			continue
		}
		if err := o.commit(ctx, p); err != nil {
			return fmt.Errorf("version %d: %w", v, err)
		}
		if o.snap, err = current(ctx, o.table); err != nil {
			return err
		}
	}
	at := snap.Version()
	o.upTo = &at
	return nil
}

// present says whether all files of p are in the table's folder; their paths
// are names that need no decoding.
func (o *outcomesTable) present(ctx context.Context, p *pending) (bool, error) {
	for _, a := range p.adds {
		_, err := o.table.Store().Stat(ctx, a.Path)
		if errors.Is(err, blobstore.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("outcomes of run %s: %w", p.run, err)
		}
	}
	return true, nil
}

// pendingOf reads what a state commit says of its outcomes; nil: nothing.
func pendingOf(info *deltatable.CommitInfo) (*pending, error) {
	if info == nil {
		return nil, nil
	}
	text, run := info.Tags[tagOutcomesAdds], info.Tags[change.TagRun]
	if text == "" || run == "" {
		return nil, nil
	}
	p := &pending{run: run}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return nil, fmt.Errorf("tag %s: %w", tagOutcomesAdds, err)
	}
	for _, a := range p.Adds {
		p.adds = append(p.adds, &deltatable.Add{
			Path: a.Path, Size: a.Size, ModificationTime: a.ModificationTime, Stats: a.Stats, Tags: a.Tags,
			DataChange: true, PartitionValues: map[string]*string{},
		})
	}
	return p, nil
}

// RepairOutcomes completes the outcomes of runs that died between their state
// commit and its outcomes; it gives the outcomes table's location.
// Outcomes that are lost for good are an error that names their runs.
func RepairOutcomes(ctx context.Context, e *Env, table string) (string, error) {
	t, err := e.OpenTable(ctx, table)
	if err != nil {
		return "", err
	}
	snap, err := t.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	o, err := e.openOutcomes(ctx, t.Store().URL(), snap.Properties()[change.PropOutcomes])
	if err != nil {
		return "", err
	}
	if o == nil {
		return change.OutcomesNone, nil
	}
	if err := o.repair(ctx, t, snap); err != nil {
		return "", err
	}
	if len(o.lost) > 0 {
		slices.Reverse(o.lost)
		return "", fmt.Errorf("outcomes table %s: the files of these runs are gone: %s", o.table.Store().URL(), strings.Join(o.lost, ", "))
	}
	return o.table.Store().URL(), nil
}
