package feature

import (
	"slices"
	"strings"

	"github.com/deltafold/deltafold/deltatable/internal/action"
)

// ForNewTable returns the smallest protocol for a new table that needs the features
// named: (1,2) for none, as every reader takes it; (1,7) with lists when only writers
// are concerned; (3,7) when readers are, as with timestampNtz. A protocol with
// features also lists appendOnly and invariants, which (1,2) implies.
func ForNewTable(features ...string) *action.Protocol {
	p := &action.Protocol{MinReader: 1, MinWriter: 2}
	return WithFeatures(p, features...)
}

// WithFeatures returns the protocol with the features added: unchanged if it supports
// them all, else with every feature that the legacy versions implied (PROTOCOL.md
// "Protocol Evolution"), as none is ever dropped.
func WithFeatures(p *action.Protocol, features ...string) *action.Protocol {
	missing := slices.DeleteFunc(slices.Clone(features), func(n string) bool { return Supports(p, n) })
	if len(missing) == 0 {
		return p
	}
	out := &action.Protocol{
		MinReader:      p.MinReader,
		MinWriter:      7,
		ReaderFeatures: slices.Clone(p.ReaderFeatures),
		WriterFeatures: slices.Clone(p.WriterFeatures),
	}
	if p.MinWriter < 7 {
		for _, k := range kinds() {
			if k.legacyWriter > 0 && k.legacyWriter <= p.MinWriter {
				missing = append(missing, k.name)
			}
		}
	}
	for _, name := range missing {
		k, known := find(name)
		if known {
			name = k.name
		}
		if known && k.reader && k.legacyWriter == 0 {
			out.MinReader = 3
		}
		if !lists(out.WriterFeatures, name) {
			out.WriterFeatures = append(out.WriterFeatures, name)
		}
	}
	if out.MinReader == 3 {
		for _, name := range out.WriterFeatures {
			// NB: with reader version 3 every reader feature is in both lists.
			if k, ok := find(name); ok && k.reader && !lists(out.ReaderFeatures, name) {
				out.ReaderFeatures = append(out.ReaderFeatures, name)
			}
		}
		slices.SortFunc(out.ReaderFeatures, strings.Compare)
	}
	slices.SortFunc(out.WriterFeatures, strings.Compare)
	return out
}
