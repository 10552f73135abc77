package action

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// commitInfo reads provenance, which is free-form: what has no field, or not the kind
// that the field wants, is kept in Extra.
func (d *decoder) commitInfo() (*CommitInfo, error) {
	c := &CommitInfo{}
	var extra []byte
	ok, err := d.object(func(name string) error {
		known, err := d.commitInfoMember(c, name)
		if known || err != nil {
			return named(name, err)
		}
		if d.dec.PeekKind() == 'n' {
			return d.dec.SkipValue()
		}
		raw, err := d.dec.ReadValue()
		if err != nil {
			return err
		}
		extra = append(extra, ',')
		if extra, err = jsontext.AppendQuote(extra, name); err != nil {
			return err
		}
		extra = append(append(extra, ':'), raw...)
		return nil
	})
	if err != nil || !ok {
		return nil, err
	}
	if extra != nil {
		extra[0] = '{'
		c.Extra = append(extra, '}')
		if err := c.Extra.Compact(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// commitInfoMember reads a member that has a field and the kind the field wants.
// false: it has not read anything.
func (d *decoder) commitInfoMember(c *CommitInfo, name string) (bool, error) {
	k := d.dec.PeekKind()
	var err error
	switch {
	case k == 'n':
		return true, d.dec.SkipValue()
	case name == "timestamp" && k == '0', name == "inCommitTimestamp" && k == '0', name == "readVersion" && k == '0':
		return d.commitInfoInt(c, name)
	case name == "isBlindAppend" && (k == 't' || k == 'f'):
		c.IsBlindAppend, err = d.bool()
	case name == "operationParameters" && k == '{':
		c.OperationParameters, err = d.strings(true)
	case name == "operationMetrics" && k == '{':
		c.OperationMetrics, err = d.strings(true)
	case name == "tags" && k == '{':
		c.Tags, err = d.strings(true)
	case k != '"':
		return false, nil
	case name == "operation":
		err = d.text(&c.Operation)
	case name == "isolationLevel":
		err = d.text(&c.IsolationLevel)
	case name == "userMetadata":
		err = d.text(&c.UserMetadata)
	case name == "engineInfo":
		err = d.text(&c.EngineInfo)
	case name == "txnId":
		err = d.text(&c.TxnID)
	default:
		return false, nil
	}
	return true, err
}

// commitInfoInt reads an integer member; a number that is no 64-bit integer is left out.
func (d *decoder) commitInfoInt(c *CommitInfo, name string) (bool, error) {
	raw, err := d.dec.ReadValue()
	if err != nil {
		return true, err
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return true, nil //nolint:nilerr // provenance never makes an entry unreadable
	}
	switch name {
	case "timestamp":
		c.Timestamp = v
	case "inCommitTimestamp":
		c.InCommitTimestamp = &v
	default:
		c.ReadVersion = &v
	}
	return true, nil
}
