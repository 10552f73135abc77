package action

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errNoPath = errors.New("member path is missing")
	errNoSize = errors.New("member size is missing")
)

func (d *decoder) add() (*Add, error) {
	a := &Add{PartitionValues: noValues, DataChange: true}
	sized := false
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "path":
			err = d.text(&a.Path)
		case "partitionValues":
			var m map[string]*string
			if m, err = d.partitionValues(); m != nil {
				a.PartitionValues = m
			}
		case "size":
			a.Size, sized, err = d.int()
		case "modificationTime":
			err = d.long(&a.ModificationTime)
		case "dataChange":
			err = d.flag(&a.DataChange)
		case "stats":
			a.Stats, err = d.stats()
		case "tags":
			a.Tags, err = d.strings(false)
		case "deletionVector":
			a.DeletionVector, err = d.deletionVector()
		case "baseRowId":
			err = d.optLong(&a.BaseRowID)
		case "defaultRowCommitVersion":
			err = d.optLong(&a.DefaultRowCommitVersion)
		case "clusteringProvider":
			var s string
			var set bool
			if s, set, err = d.str(); set {
				a.ClusteringProvider = &s
			}
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	switch {
	case err != nil || !ok:
		return nil, err
	case a.Path == "":
		return nil, errNoPath
	case !sized:
		return nil, errNoSize
	}
	return a, nil
}

func (d *decoder) remove() (*Remove, error) {
	r := &Remove{DataChange: true}
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "path":
			err = d.text(&r.Path)
		case "deletionTimestamp":
			err = d.optLong(&r.DeletionTimestamp)
		case "dataChange":
			err = d.flag(&r.DataChange)
		case "extendedFileMetadata":
			err = d.flag(&r.ExtendedFileMetadata)
		case "partitionValues":
			r.PartitionValues, err = d.partitionValues()
		case "size":
			err = d.optLong(&r.Size)
		case "stats":
			r.Stats, err = d.stats()
		case "tags":
			r.Tags, err = d.strings(false)
		case "deletionVector":
			r.DeletionVector, err = d.deletionVector()
		case "baseRowId":
			err = d.optLong(&r.BaseRowID)
		case "defaultRowCommitVersion":
			err = d.optLong(&r.DefaultRowCommitVersion)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	switch {
	case err != nil || !ok:
		return nil, err
	case r.Path == "":
		return nil, errNoPath
	}
	return r, nil
}

func (d *decoder) cdc() (*CDC, error) {
	c := &CDC{PartitionValues: noValues}
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "path":
			err = d.text(&c.Path)
		case "partitionValues":
			var m map[string]*string
			if m, err = d.partitionValues(); m != nil {
				c.PartitionValues = m
			}
		case "size":
			err = d.long(&c.Size)
		case "dataChange":
			err = d.flag(&c.DataChange)
		case "tags":
			c.Tags, err = d.strings(false)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	switch {
	case err != nil || !ok:
		return nil, err
	case c.Path == "":
		return nil, errNoPath
	}
	return c, nil
}

func (d *decoder) deletionVector() (*DeletionVector, error) {
	v := &DeletionVector{}
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "storageType":
			err = d.text(&v.StorageType)
		case "pathOrInlineDv":
			err = d.text(&v.PathOrInlineDV)
		case "offset":
			if d.dec.PeekKind() == 'n' {
				return d.dec.SkipValue()
			}
			v.Offset = new(int32)
			err = d.short(v.Offset)
		case "sizeInBytes":
			err = d.short(&v.SizeInBytes)
		case "cardinality":
			err = d.long(&v.Cardinality)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	switch {
	case err != nil || !ok:
		return nil, err
	case v.StorageType == "" || v.PathOrInlineDV == "":
		// NB: without these the logical file has no identity.
		return nil, errors.New("member storageType or pathOrInlineDv is missing")
	}
	return v, nil
}

func (d *decoder) metadata() (*Metadata, error) {
	m := &Metadata{}
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "id":
			err = d.text(&m.ID)
		case "name":
			err = d.text(&m.Name)
		case "description":
			err = d.text(&m.Description)
		case "format":
			err = d.format(m)
		case "schemaString":
			err = d.text(&m.SchemaString)
		case "partitionColumns":
			m.PartitionColumns, err = d.list()
		case "configuration":
			m.Configuration, err = d.strings(false)
		case "createdTime":
			err = d.optLong(&m.CreatedTime)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	if err != nil || !ok {
		return nil, err
	}
	return m, nil
}

func (d *decoder) format(m *Metadata) error {
	_, err := d.object(func(name string) (err error) {
		switch name {
		case "provider":
			err = d.text(&m.Provider)
		case "options":
			m.FormatOptions, err = d.strings(false)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	return err
}

func (d *decoder) protocol() (*Protocol, error) {
	p := &Protocol{}
	var reader, writer int32
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "minReaderVersion":
			err = d.short(&reader)
		case "minWriterVersion":
			err = d.short(&writer)
		case "readerFeatures":
			p.ReaderFeatures, err = d.list()
		case "writerFeatures":
			p.WriterFeatures, err = d.list()
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	if err != nil || !ok {
		return nil, err
	}
	if reader <= 0 || writer <= 0 {
		return nil, fmt.Errorf("versions %d and %d are not both positive", reader, writer)
	}
	p.MinReader, p.MinWriter = int(reader), int(writer)
	return p, nil
}

func (d *decoder) txn() (*Txn, error) {
	t := &Txn{}
	versioned := false
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "appId":
			err = d.text(&t.AppID)
		case "version":
			t.Version, versioned, err = d.int()
		case "lastUpdated":
			err = d.optLong(&t.LastUpdated)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	switch {
	case err != nil || !ok:
		return nil, err
	case !versioned:
		return nil, errors.New("member version is missing")
	}
	return t, nil
}

func (d *decoder) domain() (*DomainMetadata, error) {
	m := &DomainMetadata{}
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "domain":
			err = d.text(&m.Domain)
		case "configuration":
			err = d.text(&m.Configuration)
		case "removed":
			err = d.flag(&m.Removed)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	switch {
	case err != nil || !ok:
		return nil, err
	case m.Domain == "":
		return nil, errors.New("member domain is missing")
	}
	return m, nil
}

func (d *decoder) checkpointMetadata() (*CheckpointMetadata, error) {
	m := &CheckpointMetadata{}
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "version":
			err = d.long(&m.Version)
		case "tags":
			m.Tags, err = d.strings(false)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	if err != nil || !ok {
		return nil, err
	}
	return m, nil
}

func (d *decoder) sidecar() (*Sidecar, error) {
	s := &Sidecar{}
	ok, err := d.object(func(name string) (err error) {
		switch name {
		case "path":
			err = d.text(&s.Path)
		case "sizeInBytes":
			err = d.long(&s.SizeInBytes)
		case "modificationTime":
			err = d.long(&s.ModificationTime)
		case "tags":
			s.Tags, err = d.strings(false)
		default:
			return d.dec.SkipValue()
		}
		return named(name, err)
	})
	switch {
	case err != nil || !ok:
		return nil, err
	case s.Path == "":
		return nil, errNoPath
	}
	return s, nil
}

// partitionValues reads a map of nullable strings; nil: null. Equal texts give one map.
func (d *decoder) partitionValues() (map[string]*string, error) {
	switch k := d.dec.PeekKind(); k {
	case 'n':
		return nil, d.dec.SkipValue()
	case '{', jsontext.KindInvalid:
	default:
		return nil, fmt.Errorf("want an object, found %s", kindName(k))
	}
	raw, err := d.dec.ReadValue()
	if err != nil {
		return nil, noEOF(err)
	}
	if m, ok := d.values[string(raw)]; ok {
		return m, nil
	}
	m := map[string]*string{}
	sub := &decoder{dec: jsontext.NewDecoder(bytes.NewBuffer(raw)), names: d.names}
	_, err = sub.object(func(name string) error {
		s, ok, err := sub.str()
		if ok {
			m[name] = &s
		} else {
			m[name] = nil
		}
		return named(name, err)
	})
	if err != nil {
		return nil, err
	}
	if len(m) == 0 {
		m = noValues
	}
	if len(d.values) < maxNames {
		d.values[string(raw)] = m
	}
	return m, nil
}

// strings reads a map of strings, leaving nulls out; nil: null. With lenient, values
// of other kinds stand as their JSON text.
func (d *decoder) strings(lenient bool) (map[string]string, error) {
	var m map[string]string
	ok, err := d.object(func(name string) error {
		if m == nil {
			m = map[string]string{}
		}
		if k := d.dec.PeekKind(); lenient && k != '"' && k != 'n' {
			raw, err := d.dec.ReadValue()
			if err != nil {
				return err
			}
			raw = raw.Clone()
			if err := raw.Compact(); err != nil {
				return err
			}
			m[name] = string(raw)
			return nil
		}
		s, set, err := d.str()
		if set {
			m[name] = s
		}
		return named(name, err)
	})
	if ok && m == nil {
		m = map[string]string{}
	}
	return m, err
}

// list reads an array of strings; nil: null.
func (d *decoder) list() ([]string, error) {
	switch k := d.dec.PeekKind(); k {
	case 'n':
		return nil, d.dec.SkipValue()
	case '[', jsontext.KindInvalid:
	default:
		return nil, fmt.Errorf("want an array, found %s", kindName(k))
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, noEOF(err)
	}
	list := []string{}
	for d.dec.PeekKind() != ']' {
		s, ok, err := d.str()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errors.New("want a string, found null")
		}
		list = append(list, s)
	}
	_, err := d.dec.ReadToken()
	return list, noEOF(err)
}

// stats reads the statistics: a string with JSON in it; an object is taken as its text.
func (d *decoder) stats() (string, error) {
	if d.dec.PeekKind() == '{' {
		raw, err := d.dec.ReadValue()
		return string(raw), noEOF(err)
	}
	s, _, err := d.str()
	return s, err
}

// named says which member an error is about.
func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("member %s: %w", name, err)
}
