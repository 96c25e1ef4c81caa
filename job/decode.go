package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/bson"
)

// errNoArgs prevents the body of another type from being read as a job without arguments.
var errNoArgs = errors.New(`the field "args" is missing`)

// UnmarshalJSON decodes a stored job. It refuses a body without arguments.
func (j *typed[A]) UnmarshalJSON(data []byte) error { return j.RestoreForm(data) }

// RestoreForm implements outsideform.Form.
func (j *typed[A]) RestoreForm(data []byte) error {
	var body struct {
		Outside  bool            `json:"outside"`
		Args     json.RawMessage `json:"args"`
		Override *override       `json:"override"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return err
	}
	if body.Args == nil {
		return errNoArgs
	}
	j.Outside, j.Override = body.Outside, body.Override
	if j.Outside {
		j.payload = bytes.Clone(body.Args)
	}
	return wrapArgs(json.Unmarshal(body.Args, &j.Arguments))
}

// MarshalJSON encodes the stored form.
func (j *typed[A]) MarshalJSON() ([]byte, error) { return j.StoredForm() }

// StoredForm implements outsideform.Form. The payload of a job for outside workers stays as
// it was sent.
func (j *typed[A]) StoredForm() ([]byte, error) {
	var args any = &j.Arguments
	if j.payload != nil {
		args = j.payload
	}
	return json.Marshal(struct {
		Outside  bool      `json:"outside,omitempty"`
		Args     any       `json:"args"`
		Override *override `json:"override,omitempty"`
	}{j.Outside, args, j.Override})
}

// UnmarshalBSON decodes a stored job. It refuses a body without arguments.
func (j *typed[A]) UnmarshalBSON(data []byte) error {
	body := bson.Raw(data)
	args, err := body.LookupErr("args")
	if err != nil {
		return fmt.Errorf(`reading the field "args": %w`, err)
	}
	if stored := body.Lookup("override"); !stored.IsZero() {
		err = stored.Unmarshal(&j.Override)
		if err != nil {
			return fmt.Errorf(`decoding the field "override": %w`, err)
		}
	}
	return wrapArgs(args.Unmarshal(&j.Arguments))
}

func wrapArgs(err error) error {
	if err != nil {
		return fmt.Errorf(`decoding the field "args": %w`, err)
	}
	return nil
}
