package feature

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// schemaUsage is what a schema's field metadata and types say about features.
type schemaUsage struct {
	keys    map[string]struct{}
	damaged bool
}

func (u schemaUsage) has(key string) bool { _, ok := u.keys[key]; return ok }

func (u schemaUsage) hasPrefix(prefix string) bool {
	for k := range u.keys {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}

// usage collects the keys of all "metadata" objects of the schema's fields, nested
// ones included. It looks at the structure, so a column named like a key is no use
// of the feature.
func usage(schemaString string) schemaUsage {
	u := schemaUsage{keys: map[string]struct{}{}}
	if schemaString == "" {
		return u
	}
	dec := jsontext.NewDecoder(strings.NewReader(schemaString), jsontext.AllowDuplicateNames(true))
	if err := u.value(dec); err != nil {
		u.damaged = true
	}
	return u
}

// value walks a value outside of metadata.
func (u *schemaUsage) value(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '{':
		return u.members(dec, func(name string) error {
			if name == "metadata" && dec.PeekKind() == '{' {
				return u.members(dec, func(key string) error {
					u.keys[key] = struct{}{}
					return dec.SkipValue()
				})
			}
			return u.value(dec)
		})
	case '[':
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		for dec.PeekKind() != ']' {
			if err := u.value(dec); err != nil {
				return err
			}
		}
		_, err := dec.ReadToken()
		return err
	}
	return dec.SkipValue()
}

func (u *schemaUsage) members(dec *jsontext.Decoder, member func(name string) error) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}
