package management

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/outsideform"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// argsOf returns the arguments of a job as JSON, or why they are hidden. It does not need
// the job's type: a stored document reads the same in every process, so that code that
// redacts secrets finds them.
func argsOf(r *driver.Record, byReference bool) (args json.RawMessage, hidden string) {
	switch {
	case r.Job.IsZero() && byReference:
		return nil, "the queue holds the job itself, whose arguments can be read only after it has ended"
	case r.Job.IsZero():
		return nil, "the job has no stored form that could be read"
	}
	args, err := storedArgs(r.Job)
	if err != nil {
		return nil, fmt.Sprintf("the stored form of the job can't be decoded: %v", err)
	}
	return args, ""
}

// storedArgs returns the arguments in the stored form of a job.
func storedArgs(body registry.Body) (json.RawMessage, error) {
	doc, err := jsonOf(body)
	if err != nil {
		return nil, err
	}
	if own := argsField(doc); own != nil {
		return own, nil
	}
	return doc, nil
}

// The fields of the stored form of a job made by a definition of package job.
const (
	fieldBytes    = "bytes" // of a job for outside workers: base64
	fieldOverride = "override"
)

// argsField returns the arguments of a job made by a definition, or the payload of a job for
// outside workers; nil for another job. Their stored form has no other fields.
func argsField(doc json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc, &fields) != nil {
		return nil
	}
	for name := range fields {
		if name != FieldArgs && name != fieldOverride && name != fieldBytes && name != outsideform.Field {
			return nil
		}
	}
	if _, isOutside := fields[outsideform.Field]; isOutside && fields[fieldBytes] != nil {
		return fields[fieldBytes]
	}
	return fields[FieldArgs]
}

// resultField is the field of the stored document that contains the result.
const resultField = "value"

// resultOf returns the result of a job as JSON; nil if it has none.
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

// jsonOf returns a stored document as JSON that encoding/json decodes again into the Go types it
// came from: integers are exact, dates are RFC 3339, and bytes are base64. Other values without a
// JSON form, such as the ObjectID {"$oid": "…"}, become objects, as in MongoDB's relaxed extended
// JSON.
func jsonOf(body registry.Body) (doc json.RawMessage, err error) {
	raw := body.Raw()
	if body.IsJSON() {
		if !json.Valid(raw) {
			return nil, errors.New("not valid JSON")
		}
		return raw, nil
	}
	defer func() {
		if value := recover(); value != nil {
			doc, err = nil, fmt.Errorf("decoding panicked: %v", value)
		}
	}()
	if err = bson.Raw(raw).Validate(); err != nil {
		return nil, fmt.Errorf("not valid BSON: %w", err)
	}
	doc, err = bson.MarshalExtJSON(bson.Raw(raw), false, false)
	doc = plainJSON(doc)
	if err == nil && !json.Valid(doc) {
		err = errors.New("not representable in JSON")
	}
	return doc, err
}

// extended finds dates and bytes in extended JSON. Within a JSON string they can't occur, because
// the quotes of a string are escaped.
var extended = regexp.MustCompile(`\{"\$(?:date":(?:"([^"\\]*)"|\{"\$numberLong":"(-?\d+)"\})|binary":\{"base64":"([^"\\]*)","subType":"00"\})\}`)

// plainJSON replaces the dates and bytes of extended JSON by strings.
func plainJSON(doc []byte) []byte {
	return extended.ReplaceAllFunc(doc, func(value []byte) []byte {
		parts := extended.FindSubmatch(value)
		text := string(parts[1]) + string(parts[3])
		if len(parts[2]) > 0 { // a year before 1970 or after 9999
			ms, err := strconv.ParseInt(string(parts[2]), 10, 64)
			at := time.UnixMilli(ms).UTC()
			if err != nil || at.Year() < 0 || at.Year() > 9999 {
				return value // not possible in RFC 3339
			}
			text = at.Format(time.RFC3339Nano)
		}
		return []byte(`"` + text + `"`)
	})
}
