package management

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// TimeRange is the range of times from From, inclusive, to To, exclusive. A zero bound is
// no bound.
type TimeRange struct {
	// From is the earliest time, inclusive, and To the latest, exclusive. Default: no bound.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// JobFilter selects jobs by their current values. Fields that are left out match everything; the
// others are ANDed. A list matches if one of its values does; Tags must all match. A list has at
// most 100 values. An empty list that is not nil is invalid, because the caller may mean none.
type JobFilter struct {
	// Queues are names of queues, States are states, and Types are types of jobs: one of each
	// list must match.
	Queues []string         `json:"queues,omitempty" minItems:"1"`
	States []amboy.JobState `json:"states,omitempty" minItems:"1"`
	Types  []string         `json:"types,omitempty" minItems:"1"`
	// Tags are tags that the job must have, all of them.
	Tags []string `json:"tags,omitempty" minItems:"1"`
	// IDs are IDs of jobs.
	IDs []string `json:"ids,omitempty" minItems:"1"`
	// IDPattern is a pattern for the ID: * matches any characters, ? matches one, and
	// every other character matches itself.
	IDPattern string `json:"id_pattern,omitempty"`
	// IDPart and TypePart are parts of the ID and the type, and TagPart is a part of a tag. As
	// for Error, the case of the letters A to Z does not matter.
	IDPart   string `json:"id_part,omitempty"`
	TypePart string `json:"type_part,omitempty"`
	TagPart  string `json:"tag_part,omitempty"`
	// ArgsPart is a part of the arguments, as JSON without spaces between its values. Arguments that
	// are encrypted, or whose stored form is longer than MaxSearchedArgs, are not searched.
	ArgsPart string `json:"args_part,omitempty"`
	// Error is a part of the job's last error.
	Error string `json:"error,omitempty"`
	// ErrorGroup is a message as FoldError folds it, or one to fold: it selects the jobs
	// whose last error folds to the same.
	ErrorGroup string `json:"error_group,omitempty"`
	// Scope is a scope that the job needs, whether it holds it or not.
	Scope string `json:"scope,omitempty"`
	// Created is when the job was created, Due when it may start, and Ended when it ended.
	Created TimeRange `json:"created,omitzero"`
	Due     TimeRange `json:"due,omitzero"`
	Ended   TimeRange `json:"ended,omitzero"`
}

// UnmarshalJSON refuses unknown fields, and an *InvalidArgumentError names a field that is null: without it the
// filter would select more jobs, and a caller may have computed it, as an empty list that Go encodes as null.
func (f *JobFilter) UnmarshalJSON(data []byte) error {
	type plain JobFilter // without this method
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*plain)(f)); err != nil {
		return err
	}
	if name := nullField(data); name != "" {
		return invalid(name, "null", "must have a value, or be left out to select whatever it is")
	}
	return nil
}

// nullField returns the name of a field of a JSON object that is null, or of a field within one; "" if none is.
func nullField(data []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return "" // not an object
	}
	for name, value := range fields {
		if string(value) == "null" {
			return name
		}
		if inner := nullField(value); inner != "" {
			return name + "." + inner
		}
	}
	return ""
}

// PageRequest requests a page of a list.
type PageRequest struct {
	// Cursor is the Next of the previous page; empty for the first.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of items, up to MaxLimit; 0 means DefaultLimit.
	Limit int `json:"limit,omitempty"`
	// Newest returns the newest items first. The default is the oldest first.
	Newest bool `json:"newest,omitempty"`
	// Args asks FindJobs for the arguments of the jobs.
	Args bool `json:"args,omitempty"`
}

// JobPage is a page of jobs. A page before the last may have fewer jobs than requested,
// or none.
type JobPage struct {
	// Jobs are the jobs of the page.
	Jobs []JobSummary `json:"jobs"`
	// Next is the cursor of the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (f JobFilter) Validate() error {
	errs := []error{
		validateValues("queues", f.Queues, true),
		f.validateStates(),
		validateValues("types", f.Types, false),
		validateValues("tags", f.Tags, false),
		validateValues("ids", f.IDs, false),
		f.validateIDPattern(),
		validateText("id_part", f.IDPart),
		validateText("type_part", f.TypePart),
		validateText("tag_part", f.TagPart),
		validateText("args_part", f.ArgsPart),
		validateText("error", f.Error),
		validateText("error_group", f.ErrorGroup),
		validateText("scope", f.Scope),
		f.Created.validate("created"),
		f.Due.validate("due"),
		f.Ended.validate("ended"),
	}
	return errors.Join(errs...)
}

// SelectsAll reports whether the filter selects all jobs, as an empty filter does.
func (f JobFilter) SelectsAll() bool {
	return len(f.Queues)+len(f.States)+len(f.Types)+len(f.Tags)+len(f.IDs) == 0 && strings.Trim(f.IDPattern, "*") == "" &&
		f.IDPart+f.TypePart+f.TagPart+f.ArgsPart == "" && f.Error == "" && f.ErrorGroup == "" && f.Scope == "" && f.Created == TimeRange{} && f.Due == TimeRange{} && f.Ended == TimeRange{}
}

func (f JobFilter) validateStates() error {
	for _, state := range f.States {
		if !slices.Contains(amboy.JobStates(), state) {
			return invalid("states", string(state), fmt.Sprintf("must be among %q", amboy.JobStates()))
		}
	}
	return validateLength("states", f.States)
}

// MaxPatternStars is the maximum number of stars in the ID pattern of a JobFilter. Adjacent
// stars count once. Each star multiplies the worst-case cost of a comparison.
const MaxPatternStars = 10

func (f JobFilter) validateIDPattern() error {
	if n := strings.Count(oneStar(f.IDPattern), "*"); n > MaxPatternStars {
		return invalid("id_pattern", f.IDPattern, fmt.Sprintf("must have at most %d stars, and has %d", MaxPatternStars, n))
	}
	return validateText("id_pattern", f.IDPattern)
}

// oneStar replaces adjacent stars of a pattern, which mean the same as one, with one.
func oneStar(pattern string) string {
	for strings.Contains(pattern, "**") {
		pattern = strings.ReplaceAll(pattern, "**", "*")
	}
	return pattern
}

// validateValues returns an error for a list of values. mayBeEmpty allows the empty value.
func validateValues(field string, values []string, mayBeEmpty bool) error {
	if err := validateLength(field, values); err != nil {
		return err
	}
	for _, value := range values {
		if value == "" && !mayBeEmpty {
			return invalid(field, value, "must not contain an empty value")
		}
		if err := validateText(field, value); err != nil {
			return err
		}
	}
	return nil
}

// validateLength returns an error for a list of a filter that has too many values, or none. A caller
// that passes an empty list may have computed it, and mean no job.
func validateLength[T any](field string, values []T) error {
	switch {
	case len(values) > MaxFilterValues:
		return invalid(field, fmt.Sprintf("%d values", len(values)), fmt.Sprintf("must have at most %d values", MaxFilterValues))
	case values != nil && len(values) == 0:
		return invalid(field, "[]", "must have a value, or be left out to select whatever it is")
	default:
		return nil
	}
}

func validateText(field, text string) error {
	switch {
	case len(text) > MaxFilterBytes:
		return invalid(field, text, fmt.Sprintf("must be at most %d bytes long, and has %d", MaxFilterBytes, len(text)))
	case !utf8.ValidString(text):
		return invalid(field, text, "must be valid UTF-8")
	default:
		return nil
	}
}

// validTime returns an error for a time that has no JSON form and so could not be shown.
func validTime(field string, t time.Time) error {
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return invalid(field, formatTime(t), "must be in a year from 0 to 9999, in UTC")
	}
	return nil
}

func (r TimeRange) validate(field string) error {
	if err := errors.Join(validTime(field, r.From), validTime(field, r.To)); err != nil {
		return err
	}
	if !r.From.IsZero() && !r.To.IsZero() && r.From.After(r.To) {
		return invalid(field, formatTime(r.From), "must not begin after its end, "+formatTime(r.To))
	}
	return nil
}

func formatTime(t time.Time) string { return t.Format(time.RFC3339Nano) }

// query returns the driver query of the filter, for some queues of a store.
func (f JobFilter) query(queues []string) driver.Query {
	return driver.Query{
		Queues: queues,
		States: f.States,
		Types:  f.Types,
		ID:     oneStar(f.IDPattern),
		IDPart: f.IDPart, TypePart: f.TypePart, TagPart: f.TagPart,
		JobIDs:  f.IDs,
		Tags:    f.Tags,
		Scope:   f.Scope,
		Error:   cmp.Or(f.Error, constantPart(FoldError(f.ErrorGroup))),
		Created: driver.TimeRange(f.Created),
		Due:     driver.TimeRange(f.Due),
		Ended:   driver.TimeRange(f.Ended),
		Latest:  true,
	}
}

// Searches reports whether the filter has parts of texts, which a store may have to search all jobs
// for.
func (f JobFilter) Searches() bool {
	return f.IDPart+f.TypePart+f.TagPart+f.ArgsPart+f.Error+f.ErrorGroup != ""
}

// matcher returns a function that reports whether a record that the query of the filter
// selects is selected by the filter too. A store does not know groups of errors: it selects
// the records whose errors contain what all errors of a group have in common. The function is
// nil if the query selects no other records.
func (f JobFilter) matcher() func(*driver.Record) bool {
	if f.ErrorGroup == "" {
		return nil
	}
	group := FoldError(f.ErrorGroup)
	return func(r *driver.Record) bool {
		text := driver.LastError(r.Status.Errors)
		return text != "" && FoldError(text) == group
	}
}

// only returns the records that a matcher selects.
func only(records []*driver.Record, matches func(*driver.Record) bool) []*driver.Record {
	if matches == nil {
		return records
	}
	return slices.DeleteFunc(records, func(r *driver.Record) bool { return !matches(r) })
}

// limit returns the number of items on a page, or an *InvalidArgumentError.
func (p PageRequest) limit() (int, error) {
	switch {
	case p.Limit < 0 || p.Limit > MaxLimit:
		return 0, invalid("limit", fmt.Sprint(p.Limit), fmt.Sprintf("must be from 1 to %d, or 0 for %d", MaxLimit, DefaultLimit))
	case p.Limit == 0:
		return DefaultLimit, nil
	default:
		return p.Limit, nil
	}
}
