package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deltafold/deltafold/checkpoints"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/merge/change"
)

// AuditJob is one invocation of audit.
type AuditJob struct {
	Table    string
	From, To *deltatable.Version // nil: first readable, latest
	// Changes is a folder of change files, "" for none: a file, or a folder of
	// files, is one batch.
	Changes string
	Full    bool
}

// Audit checks versions of a table (merge-semantics 7). What is wrong is in the
// report; an error says that the audit could not be made.
func Audit(ctx context.Context, e *Env, j *AuditJob) (*checkpoints.Report, error) {
	t, err := e.OpenTable(ctx, j.Table)
	if err != nil {
		return nil, err
	}
	snap, err := t.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	o := &checkpoints.Options{
		From: j.From, To: j.To, Full: j.Full, Now: e.Now,
		Progress: func(v, to deltatable.Version) { e.step("auditing version %d of %d", v, to) },
	}
	if err := e.auditOutcomes(ctx, o, t, snap); err != nil {
		return nil, err
	}
	if j.Changes != "" {
		src, err := e.openChanges(ctx, j.Changes)
		if err != nil {
			return nil, err
		}
		o.Batches = src
	}
	return checkpoints.Audit(ctx, t, o)
}

// auditOutcomes finds the outcomes table; none stays unchecked, which the audit
// says, and one that is not there is what it reports.
func (e *Env) auditOutcomes(ctx context.Context, o *checkpoints.Options, t *deltatable.Table, snap *deltatable.Snapshot) error {
	property := snap.Properties()[change.PropOutcomes]
	out, err := e.openOutcomes(ctx, t.Store().URL(), property)
	if err != nil {
		return err
	}
	if out != nil {
		o.Outcomes, o.OutcomesProperty = out.table, property
	}
	return nil
}

// audit checks the version that a run just made.
func (a *applier) audit(ctx context.Context, v deltatable.Version) (*checkpoints.Report, error) {
	o := &checkpoints.Options{From: &v, To: &v, Now: a.env.Now, Batches: oneBatch{a}}
	if a.outcomes != nil {
		o.Outcomes, o.OutcomesProperty = a.outcomes.table, a.kind.outcomesAt()
	}
	return checkpoints.Audit(ctx, a.table, o)
}

// oneBatch gives the audit the batch that the run has in memory.
type oneBatch struct{ a *applier }

// Batch implements checkpoints.BatchSource.
func (b oneBatch) Batch(_ context.Context, want *checkpoints.BatchRequest) (*checkpoints.Batch, bool, error) {
	if want.Digest != b.a.batch.Digest {
		return nil, false, nil
	}
	return batchOf(b.a.files), true, nil
}

func batchOf(files []*changefile.File) *checkpoints.Batch {
	out := &checkpoints.Batch{}
	for _, f := range files {
		out.Files = append(out.Files, checkpoints.BatchFile{Records: f.Records, Present: f.Present})
	}
	return out
}

// changesDir finds batches in a folder by their digest: every file is a batch,
// and every folder in it is one of several files.
type changesDir struct {
	batches [][]changefile.Source     // files in the order of their names
	known   map[string]map[string]int // by way of reading, then by digest
}

func (e *Env) openChanges(ctx context.Context, dir string) (*changesDir, error) {
	d := &changesDir{known: map[string]map[string]int{}}
	list := listFolder
	if isURL(dir) {
		list = e.listStore
	}
	files, err := list(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("read change files: %w", err)
	}
	if len(files) == 0 && isURL(dir) { // an object store has no folders that could be missing
		return nil, fmt.Errorf("read change files: there is nothing at %s", dir)
	}
	at := map[string]int{} // folder -> batch
	for _, f := range files {
		if changefile.FormatOf(f.key) == "" {
			continue
		}
		folder, _, inside := strings.Cut(f.key, "/")
		i, seen := at[folder]
		if !inside || !seen {
			i = len(d.batches)
			d.batches = append(d.batches, nil)
		}
		if inside {
			at[folder] = i
		}
		d.batches[i] = append(d.batches[i], f.source)
	}
	return d, nil
}

// changeFile is a file of a folder of change files.
type changeFile struct {
	key    string // below the folder, of one or two parts
	source changefile.Source
}

// listFolder lists the files of a local folder and of the folders in it.
func listFolder(_ context.Context, dir string) ([]changeFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []changeFile
	add := func(key string) {
		name := filepath.Join(dir, filepath.FromSlash(key))
		out = append(out, changeFile{key, changefile.FromFile(name, name)})
	}
	for _, e := range entries {
		if !e.IsDir() {
			add(e.Name())
			continue
		}
		inner, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range inner {
			if !f.IsDir() {
				add(e.Name() + "/" + f.Name())
			}
		}
	}
	return out, nil
}

// listStore is listFolder for the folder at a URL.
func (e *Env) listStore(ctx context.Context, dir string) ([]changeFile, error) {
	store, err := e.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	var out []changeFile
	for info, err := range store.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		if strings.Count(info.Key, "/") <= 1 {
			base, _ := cutQuery(store.URL())
			out = append(out, changeFile{info.Key, changefile.FromStore(base+"/"+info.Key, store, info.Key)})
		}
	}
	return out, nil
}

// Batch implements checkpoints.BatchSource. A batch is read as its run read it.
func (d *changesDir) Batch(ctx context.Context, want *checkpoints.BatchRequest) (*checkpoints.Batch, bool, error) {
	o := &changefile.Options{Schema: nullable(want.Schema), Format: want.Flags.Format, AllowUnknown: want.Flags.AllowUnknown}
	var err error
	if want.Roles != nil {
		if o.Schema, err = InputSchema(want.Roles, want.Schema, ""); err != nil {
			return nil, false, err
		}
		o.AllowUnknown = o.AllowUnknown || want.Roles.PayloadGiven
	}
	if want.Flags.Timezone != "" {
		if o.Zone, err = time.LoadLocation(want.Flags.Timezone); err != nil {
			return nil, false, err
		}
	}
	way := fmt.Sprintf("%s %t %q %q", o.Schema, o.AllowUnknown, o.Format, want.Flags.Timezone)
	if d.known[way] == nil {
		d.known[way] = map[string]int{}
		for i := range d.batches {
			files, err := d.read(ctx, i, o)
			if err != nil {
				continue // a file that this table cannot read is none of its batches
			}
			d.known[way][changefile.Digest(files)] = i
		}
	}
	i, ok := d.known[way][want.Digest]
	if !ok {
		return nil, false, nil
	}
	files, err := d.read(ctx, i, o)
	if err != nil {
		return nil, false, err
	}
	return batchOf(files), true, nil
}

func (d *changesDir) read(ctx context.Context, i int, o *changefile.Options) ([]*changefile.File, error) {
	var files []*changefile.File
	for _, src := range d.batches[i] {
		f, err := changefile.Read(ctx, src, o)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
