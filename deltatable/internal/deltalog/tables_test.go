package deltalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// tablesDir returns the folder of foreign tables, or skips.
func tablesDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("DELTAFOLD_TABLES"); dir != "" {
		return dir
	}
	root, err := os.Getwd()
	for ; err == nil && root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			dir := filepath.Join(root, "..", "shared", "tables")
			if _, err := os.Stat(dir); err == nil {
				return dir
			}
			break
		}
	}
	t.Skip("no foreign tables: set DELTAFOLD_TABLES to their folder")
	return ""
}

// snapshotJSON is the form of expected/<table>.state.json.
type snapshotJSON struct {
	Version  Version `json:"version"`
	Protocol struct {
		MinReader      int      `json:"minReaderVersion"`
		MinWriter      int      `json:"minWriterVersion"`
		ReaderFeatures []string `json:"readerFeatures"`
		WriterFeatures []string `json:"writerFeatures"`
	} `json:"protocol"`
	Metadata struct {
		ID               string            `json:"id"`
		Name             string            `json:"name"`
		Description      string            `json:"description"`
		PartitionColumns []string          `json:"partitionColumns"`
		Configuration    map[string]string `json:"configuration"`
		CreatedTime      *int64            `json:"createdTime"`
		Schema           any               `json:"schema"`
	} `json:"metadata"`
	Transactions map[string]txnJSON `json:"transactions"`
	Domains      map[string]string  `json:"domainMetadata"`
	ICT          *int64             `json:"inCommitTimestamp"`
	Files        []fileJSON         `json:"files"`
}

type txnJSON struct {
	Version     int64  `json:"version"`
	LastUpdated *int64 `json:"lastUpdated"`
}

type fileJSON struct {
	Path             string             `json:"path"`
	Values           map[string]*string `json:"partitionValues"`
	Size             int64              `json:"size"`
	ModificationTime int64              `json:"modificationTime"`
	NumRecords       *int64             `json:"numRecords"`
	Vector           *vectorJSON        `json:"deletionVector"`
	BaseRowID        *int64             `json:"baseRowId"`
	RowVersion       *int64             `json:"defaultRowCommitVersion"`
}

type vectorJSON struct {
	StorageType string `json:"storageType"`
	Path        string `json:"pathOrInlineDv"`
	Offset      *int32 `json:"offset"`
	Size        int32  `json:"sizeInBytes"`
	Cardinality int64  `json:"cardinality"`
}

func decodeJSON(t *testing.T, data []byte, into any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("decode %.80s: %v", data, err)
	}
}

// snapshotOf brings a state into that form.
func snapshotOf(t *testing.T, s *State) snapshotJSON {
	t.Helper()
	out := snapshotJSON{Version: s.Version, Transactions: map[string]txnJSON{}, Domains: map[string]string{}}
	p, m := s.Protocol, s.Metadata
	out.Protocol.MinReader, out.Protocol.MinWriter = p.MinReader, p.MinWriter
	out.Protocol.ReaderFeatures, out.Protocol.WriterFeatures = p.ReaderFeatures, p.WriterFeatures
	out.Metadata.ID, out.Metadata.Name, out.Metadata.Description = m.ID, m.Name, m.Description
	out.Metadata.PartitionColumns, out.Metadata.Configuration, out.Metadata.CreatedTime = m.PartitionColumns, m.Configuration, m.CreatedTime
	decodeJSON(t, []byte(m.SchemaString), &out.Metadata.Schema)
	for app, x := range s.Txns {
		out.Transactions[app] = txnJSON{x.Version, x.LastUpdated}
	}
	for name, d := range s.Domains {
		out.Domains[name] = d.Configuration
	}
	if s.CommitInfo != nil {
		out.ICT = s.CommitInfo.InCommitTimestamp
	}
	for _, a := range s.Adds {
		f := fileJSON{
			Path: a.Path, Values: a.PartitionValues, Size: a.Size, ModificationTime: a.ModificationTime,
			BaseRowID: a.BaseRowID, RowVersion: a.DefaultRowCommitVersion,
		}
		if d := a.DeletionVector; d != nil {
			f.Vector = &vectorJSON{d.StorageType, d.PathOrInlineDV, d.Offset, d.SizeInBytes, d.Cardinality}
		}
		if a.Stats != "" {
			var stats struct {
				NumRecords *int64 `json:"numRecords"`
			}
			decodeJSON(t, []byte(a.Stats), &stats)
			f.NumRecords = stats.NumRecords
		}
		out.Files = append(out.Files, f)
	}
	return out
}

// normal removes differences that mean nothing.
func (s *snapshotJSON) normal() {
	if s.Files == nil {
		s.Files = []fileJSON{}
	}
	if s.Protocol.MinReader < 3 && len(s.Protocol.ReaderFeatures) == 0 {
		s.Protocol.ReaderFeatures = nil
	}
	if s.Protocol.MinWriter < 7 && len(s.Protocol.WriterFeatures) == 0 {
		s.Protocol.WriterFeatures = nil
	}
	slices.SortFunc(s.Files, func(a, b fileJSON) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(vectorPath(a.Vector), vectorPath(b.Vector))
	})
	for i := range s.Files {
		// One table's vector has an absolute path that depends on where the table lies.
		if v := s.Files[i].Vector; v != nil && v.StorageType == "p" {
			v.Path = v.Path[strings.LastIndexByte(v.Path, '/')+1:]
		}
	}
}

func vectorPath(v *vectorJSON) string {
	if v == nil {
		return ""
	}
	return v.Path
}

// wantRefused are the tables whose log is refused, with what the error must say. The
// V2 log checkpoints of these tables are passed over, as all their entries are there.
var wantRefused = map[string]string{
	"deltalog-state-reconstruction-without-metadata": "no metaData action",
	"deltalog-state-reconstruction-without-protocol": "no protocol action",
	"errlog-table_c":          "00000000000000000012.json",
	"no-delta-log-folder":     "no Delta table",
	"versions-not-contiguous": "00000000000000000001.json",
}

func TestForeignTablesStateEqualsExpected(t *testing.T) {
	dir := tablesDir(t)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	read, refused := 0, 0
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || name == "expected" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if checkForeign(t, dir, name) {
				read++
			} else {
				refused++
			}
		})
	}
	t.Logf("%d logs read and equal, %d refused by name", read, refused)
	if read < 128 {
		t.Errorf("only %d logs were read, want at least 128", read)
	}
}

func checkForeign(t *testing.T, dir, name string) (read bool) {
	ctx := context.Background()
	store, err := blobstore.Open(ctx, filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(ctx, store, nil)
	if want, ok := wantRefused[name]; ok {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("error is %v, want one that says %s", err, want)
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "expected", name+".state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want snapshotJSON
	decodeJSON(t, data, &want)
	got := snapshotOf(t, s)
	want.normal()
	got.normal()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("state differs (-want +got):\n%s", d)
	}
	return true
}

func TestForeignTablesFeaturesRefusedByName(t *testing.T) {
	dir := tablesDir(t)
	ctx := context.Background()
	for name, want := range map[string]string{
		"catalog-owned-preview":             "catalogManaged",
		"cdf-column-mapping-name-mode-3-7":  "columnMapping",
		"deltalog-invalid-protocol-version": "minReaderVersion 99",
		"type-widening":                     "typeWidening-preview",
		"table-with-geo":                    "geospatial",
		"unshredded-variant":                "variantType",
	} {
		t.Run(name, func(t *testing.T) {
			store, err := blobstore.Open(ctx, filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			s, err := Load(ctx, store, nil)
			if err != nil {
				t.Fatal(err)
			}
			var unsupported *feature.UnsupportedError
			if err := feature.CheckRead(s.Protocol, s.Metadata); !errors.As(err, &unsupported) || !strings.Contains(unsupported.Feature, want) {
				t.Errorf("CheckRead gives %v, want a refusal of %s", err, want)
			}
		})
	}
}
