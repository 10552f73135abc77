package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// linkTable copies a table: data files as hard links, the log as files.
func linkTable(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case strings.HasPrefix(rel, "_delta_log"):
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(target, data, 0o600)
		}
		return os.Link(path, target)
	})
}

func removeAll(paths ...string) error {
	var errs []error
	for _, p := range paths {
		errs = append(errs, os.RemoveAll(p))
	}
	return errors.Join(errs...)
}

// longLog makes the log of a table with that many commits: the first makes the
// table, each other adds one file. Opening a table reads no data file, so there
// are none.
func longLog(table string, commits int) error {
	dir := filepath.Join(table, "_delta_log")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	const first = `{"commitInfo":{"timestamp":1700000000000,"operation":"CREATE TABLE","operationParameters":{}}}
{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"5c9a0f1c-6d4c-4a8e-9f3f-1f2b3c4d5e6f","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"entity_id\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"source_version\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"status\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"value\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{},"createdTime":1700000000000}}
`
	const other = `{"commitInfo":{"timestamp":%[1]d,"operation":"WRITE","operationParameters":{"mode":"Append","partitionBy":"[]"},"readVersion":%[2]d,"isolationLevel":"Serializable","isBlindAppend":true,"operationMetrics":{"numFiles":"1","numOutputRows":"1000","numOutputBytes":"35000"},"engineInfo":"bench","txnId":"00000000-0000-4000-8000-%012[2]d"}}
{"add":{"path":"part-%05[2]d-3c7e1a52-8f0b-4b1e-a7c8-0a1b2c3d4e5f-c000.snappy.parquet","partitionValues":{},"size":35000,"modificationTime":%[1]d,"dataChange":true,"stats":"{\"numRecords\":1000,\"minValues\":{\"entity_id\":\"%08[2]d\",\"source_version\":1,\"status\":\"active\",\"value\":\"a\"},\"maxValues\":{\"entity_id\":\"%08[3]d\",\"source_version\":9,\"status\":\"deleted\",\"value\":\"z\"},\"nullCount\":{\"entity_id\":0,\"source_version\":0,\"status\":0,\"value\":3}}"}}
`
	for v := range commits {
		text := first
		if v > 0 {
			text = fmt.Sprintf(other, 1700000000000+int64(v)*1000, v-1, v+1000)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.json", v)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
