package management

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// argsOf returns the arguments of a job as JSON, or why they are hidden. It needs
// nothing of the job's type: what is stored has the same form wherever it is read, so
// that what hides secrets finds them.
func argsOf(r *driver.Record, byReference bool) (args json.RawMessage, hidden string) {
	switch {
	case r.Job.IsZero() && byReference:
		return nil, "the queue holds the job itself, whose arguments are read only when it has ended"
	case r.Job.IsZero():
		return nil, "there is no stored form of the job that could be read"
	}
	doc, err := jsonOf(r.Job)
	if err != nil {
		return nil, fmt.Sprintf("the stored form of the job can't be read: %v", err)
	}
	if own := argsField(doc); own != nil {
		return own, ""
	}
	return doc, ""
}

// The fields of what is stored of a job of a definition of package job.
const (
	fieldArgs     = "args"
	fieldOverride = "override"
)

// argsField returns the arguments of a job of a definition, of which little else is
// stored; nil for another job.
func argsField(doc json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc, &fields) != nil {
		return nil
	}
	for name := range fields {
		if name != fieldArgs && name != fieldOverride {
			return nil
		}
	}
	return fields[fieldArgs]
}

// resultField is where the document of a result has it.
const resultField = "value"

// resultOf returns what a job left, as JSON; nil where it left nothing.
func resultOf(r *driver.Record) (json.RawMessage, error) {
	if r.Result == nil {
		return nil, nil
	}
	doc, err := jsonOf(*r.Result)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	err = json.Unmarshal(doc, &fields)
	return fields[resultField], err
}

// jsonOf returns a stored document as JSON. What JSON has no form for is an object, as
// MongoDB's relaxed extended JSON has it.
func jsonOf(body registry.Body) (doc json.RawMessage, err error) {
	raw := body.Raw()
	if body.IsJSON() {
		if !json.Valid(raw) {
			return nil, errors.New("it is not valid JSON")
		}
		return raw, nil
	}
	defer func() {
		if value := recover(); value != nil {
			doc, err = nil, fmt.Errorf("reading it panicked: %v", value)
		}
	}()
	if err = bson.Raw(raw).Validate(); err != nil {
		return nil, fmt.Errorf("it is not valid BSON: %w", err)
	}
	doc, err = bson.MarshalExtJSON(bson.Raw(raw), false, false)
	if err == nil && !json.Valid(doc) {
		err = errors.New("it has no form in JSON")
	}
	return doc, err
}
