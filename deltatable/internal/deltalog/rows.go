package deltalog

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable/internal/action"
)

var (
	errNoPath = errors.New("a file action has no path")
	errNoSize = errors.New("an add has no size")
)

func (c *checkpointReader) addRows(s *array.Struct) func(i int) (action.Action, error) {
	path, values, size, modified := child(s, "path"), child(s, "partitionValues"), child(s, "size"), child(s, "modificationTime")
	change, stats, tags := child(s, "dataChange"), child(s, "stats"), child(s, "tags")
	vector := vectorRows(childStruct(s, "deletionVector"))
	baseRow, rowVersion, provider := child(s, "baseRowId"), child(s, "defaultRowCommitVersion"), child(s, "clusteringProvider")
	return func(i int) (action.Action, error) {
		a := &action.Add{
			Path:                    textAt(path, i),
			PartitionValues:         c.maps.at(values, i),
			ModificationTime:        longAt(modified, i),
			DataChange:              boolAt(change, i, false),
			Stats:                   textAt(stats, i),
			Tags:                    mapAt(tags, i),
			BaseRowID:               optLongAt(baseRow, i),
			DefaultRowCommitVersion: optLongAt(rowVersion, i),
		}
		if len(a.PartitionValues) == 0 {
			a.PartitionValues = action.NoPartitionValues()
		}
		if p, ok := stringAt(provider, i); ok {
			a.ClusteringProvider = &p
		}
		var err error
		if a.DeletionVector, err = vector(i); err != nil {
			return action.Action{}, err
		}
		var sized bool
		if a.Size, sized = intAt(size, i); !sized {
			return action.Action{}, errNoSize
		}
		if a.Path == "" {
			return action.Action{}, errNoPath
		}
		return action.Action{Add: a}, nil
	}
}

func (c *checkpointReader) removeRows(s *array.Struct) func(i int) (action.Action, error) {
	path, values, size, deleted := child(s, "path"), child(s, "partitionValues"), child(s, "size"), child(s, "deletionTimestamp")
	change, extended := child(s, "dataChange"), child(s, "extendedFileMetadata")
	vector := vectorRows(childStruct(s, "deletionVector"))
	baseRow, rowVersion := child(s, "baseRowId"), child(s, "defaultRowCommitVersion")
	return func(i int) (action.Action, error) {
		r := &action.Remove{
			Path:                    textAt(path, i),
			DeletionTimestamp:       optLongAt(deleted, i),
			DataChange:              boolAt(change, i, true),
			ExtendedFileMetadata:    boolAt(extended, i, false),
			PartitionValues:         c.maps.at(values, i),
			Size:                    optLongAt(size, i),
			BaseRowID:               optLongAt(baseRow, i),
			DefaultRowCommitVersion: optLongAt(rowVersion, i),
		}
		var err error
		if r.DeletionVector, err = vector(i); err != nil {
			return action.Action{}, err
		}
		if r.Path == "" {
			return action.Action{}, errNoPath
		}
		return action.Action{Remove: r}, nil
	}
}

// vectorRows decodes deletion vectors; nil for NULL. Some writers fill the struct
// with nulls instead.
func vectorRows(s *array.Struct) func(i int) (*action.DeletionVector, error) {
	kind, path := child(s, "storageType"), child(s, "pathOrInlineDv")
	offset, size, cardinality := child(s, "offset"), child(s, "sizeInBytes"), child(s, "cardinality")
	return func(i int) (*action.DeletionVector, error) {
		if s == nil || s.IsNull(i) || allNull(s, i) {
			return nil, nil
		}
		d := &action.DeletionVector{
			StorageType:    textAt(kind, i),
			PathOrInlineDV: textAt(path, i),
			Cardinality:    longAt(cardinality, i),
		}
		if d.StorageType == "" || d.PathOrInlineDV == "" {
			return nil, errors.New("a deletion vector has no storage type or path")
		}
		n := longAt(size, i)
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("a deletion vector of %d bytes", n)
		}
		d.SizeInBytes = int32(n)
		if at, ok := intAt(offset, i); ok {
			if at < 0 || at > math.MaxInt32 {
				return nil, fmt.Errorf("a deletion vector at offset %d", at)
			}
			o := int32(at)
			d.Offset = &o
		}
		return d, nil
	}
}

func (c *checkpointReader) metadataRows(s *array.Struct) func(i int) (action.Action, error) {
	format := childStruct(s, "format")
	return func(i int) (action.Action, error) {
		m := &action.Metadata{
			ID:               textAt(child(s, "id"), i),
			Name:             textAt(child(s, "name"), i),
			Description:      textAt(child(s, "description"), i),
			Provider:         textAt(child(format, "provider"), i),
			FormatOptions:    mapAt(child(format, "options"), i),
			SchemaString:     textAt(child(s, "schemaString"), i),
			PartitionColumns: listAt(child(s, "partitionColumns"), i),
			Configuration:    mapAt(child(s, "configuration"), i),
			CreatedTime:      optLongAt(child(s, "createdTime"), i),
		}
		return action.Action{Metadata: m}, nil
	}
}

func protocolRows(s *array.Struct) func(i int) (action.Action, error) {
	return func(i int) (action.Action, error) {
		reader, ok1 := intAt(child(s, "minReaderVersion"), i)
		writer, ok2 := intAt(child(s, "minWriterVersion"), i)
		if !ok1 || !ok2 || reader < 1 || writer < 1 || reader > math.MaxInt32 || writer > math.MaxInt32 {
			return action.Action{}, fmt.Errorf("protocol versions %d and %d", reader, writer)
		}
		return action.Action{Protocol: &action.Protocol{
			MinReader:      int(reader),
			MinWriter:      int(writer),
			ReaderFeatures: listAt(child(s, "readerFeatures"), i),
			WriterFeatures: listAt(child(s, "writerFeatures"), i),
		}}, nil
	}
}

func txnRows(s *array.Struct) func(i int) (action.Action, error) {
	return func(i int) (action.Action, error) {
		app := textAt(child(s, "appId"), i)
		v, ok := intAt(child(s, "version"), i)
		if !ok {
			return action.Action{}, fmt.Errorf("transaction identifier of %q has no version", app)
		}
		return action.Action{Txn: &action.Txn{AppID: app, Version: v, LastUpdated: optLongAt(child(s, "lastUpdated"), i)}}, nil
	}
}

func domainRows(s *array.Struct) func(i int) (action.Action, error) {
	return func(i int) (action.Action, error) {
		name, ok := stringAt(child(s, "domain"), i)
		if !ok {
			return action.Action{}, errors.New("domain metadata without a domain")
		}
		return action.Action{DomainMetadata: &action.DomainMetadata{
			Domain:        name,
			Configuration: textAt(child(s, "configuration"), i),
			Removed:       boolAt(child(s, "removed"), i, false),
		}}, nil
	}
}
