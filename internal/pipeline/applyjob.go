package pipeline

import (
	"time"

	"github.com/deltafold/deltafold/checkpoints"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// ApplyJob is one invocation of apply: one batch, at most one commit
// (command.md, "Commands").
type ApplyJob struct {
	Table string   // path or URL
	Files []string // paths, URLs or "-"
	// Schema is --schema, the DDL of the input; "" for none.
	Schema string
	Roles  RoleFlags
	// PartitionBy and Properties are for a table that the run makes.
	PartitionBy []string
	Properties  map[string]string
	Format      string // of the files; "" by their names

	AllowUnknown, MissingAsNull, FailOnInvalid bool

	Zone  *time.Location // of zone-less timestamps; nil refuses them
	Batch string         // its name; "" is the base name of the first file
	// AppID and AppVersion are the batch's transaction identifier; "" for none.
	AppID      string
	AppVersion int64
	// Resume is RUN@VERSION of a run whose commit was undecided; "" for none.
	Resume string
	Audit  bool // audit the version just made
	// Expectations are those of the flags, besides what the table remembers.
	Expectations []change.Expectation
}

// OutcomeRow is one input row with what became of it, for people.
type OutcomeRow struct {
	File    string         `json:"file"`
	Row     int64          `json:"row"`
	Key     string         `json:"key"`
	Version string         `json:"source_version"`
	Outcome change.Outcome `json:"outcome"`
}

// ApplyReport is what a run did, whether it ended well or was refused.
type ApplyReport struct {
	Run, Batch, Table    string
	Counts               change.Counts
	Version, ReadVersion *deltatable.Version
	// Why says why no version was made; "" where one was.
	Why string
	// Created says that the run made the table.
	Created, AlreadyApplied bool
	// Outcomes is the location of the outcomes table, or "none".
	Outcomes string
	Retries  int
	// Expectations are the numbers of rows that violated each, by name.
	Expectations map[string]int64
	// Sample are up to 20 outcomes, culprits first.
	Sample []OutcomeRow
	// Warnings are what went wrong after the commit, which it cannot undo.
	Warnings []string
	Stats    merge.Stats
	// Audit is the audit of the version made, if it was asked for.
	Audit *checkpoints.Report
}
