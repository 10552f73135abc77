package changefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// csvCutter cuts CSV into records and fields by RFC 4180, with LF as a line end
// beside CRLF. encoding/csv does not serve here: it does not tell an empty field
// from "" and turns CRLF inside quotes into LF.
type csvCutter struct {
	file  string
	in    *bufio.Reader
	start bool   // nothing has been read
	lines int64  // read so far
	long  []byte // room for lines longer than the reader's buffer

	// The record last read:
	line   int64 // of its beginning
	buf    []byte
	fields []csvCell
}

// csvCell is a field of the record: buf[from:to].
type csvCell struct {
	from, to int
	quoted   bool
	line     int64 // where it begins
}

func newCSVCutter(file string, in io.Reader) csvCutter {
	return csvCutter{file: file, in: bufio.NewReaderSize(in, readSize), start: true}
}

func (c *csvCutter) text(k int) []byte { return c.buf[c.fields[k].from:c.fields[k].to] }

// blank says that the record is a line with nothing on it.
func (c *csvCutter) blank() bool {
	return len(c.fields) == 1 && len(c.buf) == 0 && !c.fields[0].quoted
}

// read gives the next line with its line end; empty at the end of the input. It
// is valid until the next call.
func (c *csvCutter) read() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		c.long = append(c.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = c.in.ReadSlice('\n')
			if c.long = append(c.long, line...); len(c.long) > maxLine {
				return nil, &InputError{File: c.file, Line: c.lines + 1, Msg: fmt.Sprintf("the line is longer than %d bytes", maxLine)}
			}
		}
		line = c.long
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if c.start {
		line, c.start = bytes.TrimPrefix(line, []byte("\ufeff")), false
	}
	if len(line) > 0 {
		c.lines++
	}
	return line, nil
}

// record cuts the next record; false at the end of the input.
func (c *csvCutter) record() (bool, error) {
	line, err := c.read()
	if err != nil || len(line) == 0 {
		return false, err
	}
	c.line, c.buf, c.fields = c.lines, c.buf[:0], c.fields[:0]
	for {
		if line, err = c.field(line); err != nil {
			return false, err
		}
		if len(line) == 0 || line[0] != ',' {
			break
		}
		line = line[1:]
	}
	return true, c.lineEnd(line)
}

// field cuts one field off and gives what follows: a comma, a line end, nothing.
func (c *csvCutter) field(line []byte) ([]byte, error) {
	f := csvCell{from: len(c.buf), line: c.lines}
	var err error
	if len(line) > 0 && line[0] == '"' {
		f.quoted = true
		line, err = c.quoted(line[1:])
	} else {
		end := 0
		for end < len(line) && !csvStop[line[end]] {
			end++
		}
		if end < len(line) && line[end] == '"' {
			return nil, c.fail(line[:wholeField(line)], "a quote stands inside a field that is not quoted")
		}
		c.buf = append(c.buf, line[:end]...)
		line = line[end:]
	}
	f.to = len(c.buf)
	c.fields = append(c.fields, f)
	return line, err
}

// csvStop marks the bytes that end a field that is not quoted, or must not be in it.
var csvStop = [256]bool{',': true, '\r': true, '\n': true, '"': true}

// wholeField is the end of a field that has quotes where none may be.
func wholeField(line []byte) int {
	if end := bytes.IndexAny(line, ",\r\n"); end >= 0 {
		return end
	}
	return len(line)
}

// quoted reads the rest of a quoted field, which may go over several lines.
func (c *csvCutter) quoted(line []byte) ([]byte, error) {
	first, from := c.lines, len(c.buf)
	for {
		end := bytes.IndexByte(line, '"')
		if end < 0 {
			c.buf = append(c.buf, line...)
			var err error
			if line, err = c.read(); err != nil {
				return nil, err
			}
			if len(line) == 0 {
				return nil, &InputError{File: c.file, Line: first, Value: excerpt(c.buf[from:]), Msg: "the quoted field has no end"}
			}
			if len(c.buf) > maxLine {
				return nil, &InputError{File: c.file, Line: first, Msg: fmt.Sprintf("the row is longer than %d bytes", maxLine)}
			}
			continue
		}
		c.buf = append(c.buf, line[:end]...)
		line = line[end+1:]
		if len(line) == 0 || line[0] != '"' {
			break
		}
		c.buf, line = append(c.buf, '"'), line[1:]
	}
	if len(line) > 0 && line[0] != ',' && line[0] != '\r' && line[0] != '\n' {
		return nil, c.fail(line[:len(bytes.TrimRight(line, "\r\n"))], "there is more in the field behind the closing quote")
	}
	return line, nil
}

func (c *csvCutter) lineEnd(line []byte) error {
	switch string(line) {
	case "", "\n", "\r\n":
		return nil
	}
	return c.fail(line, "a carriage return stands outside quotes and does not end the line")
}

func (c *csvCutter) fail(value []byte, msg string) error {
	return &InputError{File: c.file, Line: c.lines, Value: excerpt(value), Msg: msg}
}
