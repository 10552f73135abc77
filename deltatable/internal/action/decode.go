package action

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeError says that the text of a log entry is not what the protocol allows.
type DecodeError struct {
	// Line is 1-based.
	Line int
	Err  error
}

// Error names the line.
func (e *DecodeError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decode reads the actions of a log entry, in the order of the text. Tolerated:
// unknown actions and members, lines with several top-level members, explicit nulls,
// any order of members, blank lines, CRLF, no final newline, and objects spread over
// lines or sharing one. Refused by a *[DecodeError]: text that is not JSON,
// repeated member names, invalid UTF-8, a truncated last line, a known member of
// another kind, an integer that is not one, a file action without a path, an add
// without a size. It never panics and keeps no reference to data.
func Decode(data []byte) ([]Action, error) {
	actions := make([]Action, 0, min(bytes.Count(data, []byte{'\n'})+1, len(data)/minAction+1))
	err := DecodeFunc(data, func(a Action) error {
		actions = append(actions, a)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return actions, nil
}

// minAction is a length that no useful action is below; it bounds a first allocation.
const minAction = 32

// DecodeFunc is [Decode] without the slice: it calls yield for each action. An error
// of yield ends it and is returned as it is.
func DecodeFunc(data []byte, yield func(Action) error) error {
	d := newDecoder(data)
	for {
		if _, err := d.line(yield); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			var stop *yieldError
			if errors.As(err, &stop) {
				return stop.err
			}
			return &DecodeError{Line: lineAt(data, int(d.dec.InputOffset())), Err: err}
		}
	}
}

// lineAt returns the number of the line of what follows an offset, blanks apart.
func lineAt(data []byte, offset int) int {
	at := min(offset, len(data))
	for at < len(data) && (data[at] == ' ' || data[at] == '\t' || data[at] == '\r' || data[at] == '\n') {
		at++
	}
	return 1 + bytes.Count(data[:at], []byte{'\n'})
}

type yieldError struct{ err error }

func (e *yieldError) Error() string { return e.err.Error() }

// decoder reads actions from jsontext tokens.
type decoder struct {
	dec    *jsontext.Decoder
	names  map[string]string
	values map[string]map[string]*string // by raw text: files of a partition share one map

	scratch []byte // of unquote
}

func newDecoder(data []byte) *decoder {
	return &decoder{
		dec:    jsontext.NewDecoder(bytes.NewBuffer(data[:len(data):len(data)])),
		names:  map[string]string{},
		values: map[string]map[string]*string{"{}": noValues},
	}
}

// line reads one top-level object. io.EOF: there is none.
func (d *decoder) line(yield func(Action) error) (bool, error) {
	switch k := d.dec.PeekKind(); k {
	case '{', jsontext.KindInvalid:
	default:
		return false, fmt.Errorf("want an object, found %s", kindName(k))
	}
	return d.object(func(name string) error {
		var a Action
		ok, err := d.action(name, &a)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !ok {
			return nil
		}
		if err := yield(a); err != nil {
			return &yieldError{err}
		}
		return nil
	})
}

// action reads the value of a top-level member. false: null, or not an action we know.
func (d *decoder) action(name string, a *Action) (ok bool, err error) {
	switch name {
	case "add":
		a.Add, err = d.add()
		ok = a.Add != nil
	case "remove":
		a.Remove, err = d.remove()
		ok = a.Remove != nil
	case "metaData":
		a.Metadata, err = d.metadata()
		ok = a.Metadata != nil
	case "protocol":
		a.Protocol, err = d.protocol()
		ok = a.Protocol != nil
	case "txn":
		a.Txn, err = d.txn()
		ok = a.Txn != nil
	case "domainMetadata":
		a.DomainMetadata, err = d.domain()
		ok = a.DomainMetadata != nil
	case "commitInfo":
		a.CommitInfo, err = d.commitInfo()
		ok = a.CommitInfo != nil
	case "cdc":
		a.CDC, err = d.cdc()
		ok = a.CDC != nil
	case "checkpointMetadata":
		a.CheckpointMetadata, err = d.checkpointMetadata()
		ok = a.CheckpointMetadata != nil
	case "sidecar":
		a.Sidecar, err = d.sidecar()
		ok = a.Sidecar != nil
	default:
		return false, d.dec.SkipValue()
	}
	return ok, err
}

// object reads an object and calls member with each name; member reads the value.
// It returns false for null.
func (d *decoder) object(member func(name string) error) (bool, error) {
	switch k := d.dec.PeekKind(); k {
	case 'n':
		return false, d.dec.SkipValue()
	case '{', jsontext.KindInvalid:
	default:
		return false, fmt.Errorf("want an object, found %s", kindName(k))
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return false, err
	}
	for d.dec.PeekKind() != '}' {
		name, err := d.name()
		if err != nil {
			return false, noEOF(err)
		}
		if err := member(name); err != nil {
			return false, noEOF(err)
		}
	}
	_, err := d.dec.ReadToken()
	return true, noEOF(err)
}

// noEOF keeps an end inside an object from looking like the end of the text.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // the bare value only
		return io.ErrUnexpectedEOF
	}
	return err
}

// maxNames bounds the memory of member names that are remembered.
const maxNames = 4096

// name reads a member name; names repeat, so each is made a string once.
func (d *decoder) name() (string, error) {
	if k := d.dec.PeekKind(); k != '"' {
		_, err := d.dec.ReadToken() // reports what is wrong
		if err == nil {
			err = errors.New("want a member name")
		}
		return "", err
	}
	raw, err := d.dec.ReadValue()
	if err != nil {
		return "", err
	}
	if s, ok := d.names[string(raw)]; ok {
		return s, nil
	}
	s, err := d.unquote(raw)
	if err != nil {
		return "", err
	}
	if len(d.names) < maxNames {
		d.names[string(raw)] = s
	}
	return s, nil
}

// unquote returns the text of a JSON string.
func (d *decoder) unquote(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 && len(raw) >= 2 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var err error
	d.scratch, err = jsontext.AppendUnquote(d.scratch[:0], raw)
	return string(d.scratch), err
}

// str reads a string; false: null.
func (d *decoder) str() (string, bool, error) {
	switch k := d.dec.PeekKind(); k {
	case 'n':
		return "", false, d.dec.SkipValue()
	case '"', jsontext.KindInvalid:
		raw, err := d.dec.ReadValue()
		if err != nil {
			return "", false, noEOF(err)
		}
		s, err := d.unquote(raw)
		return s, err == nil, err
	default:
		return "", false, fmt.Errorf("want a string, found %s", kindName(k))
	}
}

// text is str where null and "" mean the same.
func (d *decoder) text(dst *string) error {
	s, _, err := d.str()
	*dst = s
	return err
}

// int reads an integer; false: null.
func (d *decoder) int() (int64, bool, error) {
	switch k := d.dec.PeekKind(); k {
	case 'n':
		return 0, false, d.dec.SkipValue()
	case '0', jsontext.KindInvalid:
		raw, err := d.dec.ReadValue()
		if err != nil {
			return 0, false, noEOF(err)
		}
		v, err := strconv.ParseInt(string(raw), 10, 64) // I7
		if err != nil {
			return 0, false, fmt.Errorf("want a 64-bit integer, found %.40s", raw)
		}
		return v, true, nil
	default:
		return 0, false, fmt.Errorf("want an integer, found %s", kindName(k))
	}
}

// long is int where null leaves dst as it is.
func (d *decoder) long(dst *int64) error {
	v, ok, err := d.int()
	if ok {
		*dst = v
	}
	return err
}

// optLong is int where null leaves dst nil.
func (d *decoder) optLong(dst **int64) error {
	v, ok, err := d.int()
	if ok {
		*dst = &v
	}
	return err
}

// short is long for 32-bit members.
func (d *decoder) short(dst *int32) error {
	v, ok, err := d.int()
	if err != nil || !ok {
		return err
	}
	if int64(int32(v)) != v {
		return fmt.Errorf("want a 32-bit integer, found %d", v)
	}
	*dst = int32(v)
	return nil
}

// bool reads a boolean; nil: null.
func (d *decoder) bool() (*bool, error) {
	switch k := d.dec.PeekKind(); k {
	case 'n':
		return nil, d.dec.SkipValue()
	case 't', 'f', jsontext.KindInvalid:
		tok, err := d.dec.ReadToken()
		if err != nil {
			return nil, noEOF(err)
		}
		v := tok.Kind() == 't'
		return &v, nil
	default:
		return nil, fmt.Errorf("want a boolean, found %s", kindName(k))
	}
}

func (d *decoder) flag(dst *bool) error {
	v, err := d.bool()
	if err == nil && v != nil {
		*dst = *v
	}
	return err
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '}', ']':
		return "a closing bracket"
	}
	return "no JSON value"
}
