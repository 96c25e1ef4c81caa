package dashboard

import (
	"net/url"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// filterFields are the names of the fields of a filter, in addresses and forms.
var filterFields = []string{
	"queue", "state", "type_part", "id_part", "tag_part", "args_part", "error",
	"type", "tag", "id", "id_pattern", "error_group", "scope",
	"created_from", "created_to", "due_from", "due_to", "ended_from", "ended_to",
}

// parseFilter reads a filter. It ignores empty fields, which forms send for inputs that
// were not filled in.
func parseFilter(fields url.Values) (management.JobFilter, error) {
	var f management.JobFilter
	var err error
	if f.Queues, err = queuesOf(fields); err != nil {
		return f, err
	}
	for _, state := range given(fields, "state") {
		if !slices.Contains(amboy.JobStates(), amboy.JobState(state)) {
			return f, invalid("state", state, "is not a state of a job")
		}
		f.States = append(f.States, amboy.JobState(state))
	}
	f.Types, f.Tags, f.IDs = given(fields, "type"), given(fields, "tag"), given(fields, "id")
	for name, text := range map[string]*string{
		"type_part": &f.TypePart, "id_part": &f.IDPart, "tag_part": &f.TagPart, "args_part": &f.ArgsPart, "id_pattern": &f.IDPattern,
		"error": &f.Error, "error_group": &f.ErrorGroup, "scope": &f.Scope,
	} {
		value, err := single(fields, name)
		if err != nil {
			return f, err
		}
		*text = value
	}
	for name, t := range map[string]*time.Time{
		"created_from": &f.Created.From, "created_to": &f.Created.To,
		"due_from": &f.Due.From, "due_to": &f.Due.To,
		"ended_from": &f.Ended.From, "ended_to": &f.Ended.To,
	} {
		value, err := parseTime(fields, name)
		if err != nil {
			return f, err
		}
		*t = value
	}
	return f, nil
}

// given returns the values of a field that are not empty; nil if there are none.
func given(fields url.Values, name string) (values []string) {
	for _, value := range fields[name] {
		if value != "" {
			values = append(values, value)
		}
	}
	return values
}

// single returns the value of a field that may have only one.
func single(fields url.Values, name string) (string, error) {
	values := given(fields, name)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	default:
		return "", invalid(name, values[1], "must be given once")
	}
}

// timeLayouts are the accepted layouts of times. Times without a zone are in UTC.
var timeLayouts = []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339Nano}

func parseTime(fields url.Values, name string) (time.Time, error) {
	value, err := single(fields, name)
	if err != nil || value == "" {
		return time.Time{}, err
	}
	for _, layout := range timeLayouts {
		t, wrong := time.Parse(layout, value)
		if wrong == nil {
			return t, nil
		}
	}
	return time.Time{}, invalid(name, value, "must be a time such as 2006-01-02T15:04, in UTC")
}

// filterValues is the inverse of parseFilter.
func filterValues(f management.JobFilter) url.Values {
	values := url.Values{}
	add := func(name string, given ...string) {
		for _, value := range given {
			if value != "" {
				values.Add(name, value)
			}
		}
	}
	for _, name := range f.Queues {
		add("queue", encodeQueue(name))
	}
	for _, state := range f.States {
		add("state", string(state))
	}
	add("type", f.Types...)
	add("tag", f.Tags...)
	add("id", f.IDs...)
	add("id_pattern", f.IDPattern)
	add("type_part", f.TypePart)
	add("id_part", f.IDPart)
	add("tag_part", f.TagPart)
	add("args_part", f.ArgsPart)
	add("error", f.Error)
	add("error_group", f.ErrorGroup)
	add("scope", f.Scope)
	for name, t := range map[string]time.Time{
		"created_from": f.Created.From, "created_to": f.Created.To, "due_from": f.Due.From, "due_to": f.Due.To,
		"ended_from": f.Ended.From, "ended_to": f.Ended.To,
	} {
		if !t.IsZero() {
			add(name, t.UTC().Format("2006-01-02T15:04:05.999999999")) // an action must not select more
		}
	}
	return values
}

// filterLabels are the labels of the fields.
var filterLabels = map[string]string{
	"queue": "Queue", "state": "State", "type": "Type", "tag": "Tag", "id": "ID", "id_pattern": "ID like",
	"type_part": "Type contains", "id_part": "ID contains", "tag_part": "Tag contains", "args_part": "Arguments contain",
	"error": "Error contains", "error_group": "Error like", "scope": "Scope",
	"created_from": "Created from", "created_to": "Created before", "due_from": "Due from", "due_to": "Due before",
	"ended_from": "Ended from", "ended_to": "Ended before",
}

// field is a form field with its label and value.
type field struct{ Name, Label, Value string }

// filterList lists the fields of a filter, in the order of filterFields.
func filterList(f management.JobFilter) []field {
	values := filterValues(f)
	var list []field
	for _, name := range filterFields {
		for _, value := range values[name] {
			list = append(list, field{name, filterLabels[name], value})
		}
	}
	return list
}
