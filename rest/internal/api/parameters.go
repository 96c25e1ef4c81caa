package api

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/names"
)

// Duration is a time.Duration in a query, as time.ParseDuration takes it.
type Duration = management.Duration

// queueName and jobID are segments of a path.
type (
	queueName string
	jobID     string
)

// readParameters sets the fields of the struct that into points to from the parts of a
// request that their tags name: "path", "query" and "header". The bounds of a range of times are
// parameters such as created[from], as the style deepObject of OpenAPI has them. It refuses unknown
// query parameters, and repeated ones unless the field is a slice.
func readParameters(r *http.Request, into any) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("query", r.URL.RawQuery, "must be well-formed")
	}
	fields := fieldsOf(reflect.ValueOf(into).Elem())
	for name := range query {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.in == inQuery && f.name == name }) {
			return invalid(name, query.Get(name), "is not a parameter of this route"+knownParameters(fields))
		}
	}
	for _, f := range fields {
		given := query[f.name]
		switch f.in {
		case inPath:
			given = []string{r.PathValue(f.name)}
		case inHeader:
			given = r.Header.Values(f.name)
		}
		if err := f.set(given); err != nil {
			return err
		}
	}
	return nil
}

// The places of parameters, which are the keys of the fields' tags.
const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
)

// field is a parameter of a route.
type field struct {
	in, name string
	tag      reflect.StructTag
	value    reflect.Value
}

func fieldsOf(structure reflect.Value) []field {
	var fields []field
	for i := range structure.NumField() {
		of := structure.Type().Field(i)
		if of.Anonymous {
			fields = append(fields, fieldsOf(structure.Field(i))...)
			continue
		}
		for _, in := range []string{inPath, inQuery, inHeader} {
			name, ok := of.Tag.Lookup(in)
			if !ok {
				continue
			}
			if span, is := structure.Field(i).Addr().Interface().(*management.TimeRange); is {
				fields = append(fields,
					field{in: in, name: name + "[from]", value: reflect.ValueOf(&span.From).Elem()},
					field{in: in, name: name + "[to]", value: reflect.ValueOf(&span.To).Elem()})
				continue
			}
			fields = append(fields, field{in: in, name: name, tag: of.Tag, value: structure.Field(i)})
		}
	}
	return fields
}

// knownParameters lists the query parameters, to follow the refusal of another one.
func knownParameters(fields []field) string {
	var known []string
	for _, f := range fields {
		if f.in == inQuery {
			known = append(known, f.name)
		}
	}
	if len(known) == 0 {
		return ", which has none"
	}
	return ": it has " + strings.Join(known, ", ")
}

func (f field) set(given []string) error {
	for _, text := range given {
		if !utf8.ValidString(text) {
			return invalid(f.name, fmt.Sprintf("%q", text), "must be UTF-8")
		}
	}
	if f.value.Kind() == reflect.Slice {
		for _, text := range given {
			f.value.Set(reflect.Append(f.value, reflect.ValueOf(text).Convert(f.value.Type().Elem())))
		}
		return nil
	}
	switch len(given) {
	case 0:
		return nil
	case 1:
		return f.setOne(given[0])
	default:
		return invalid(f.name, given[1], "must be given once")
	}
}

func (f field) setOne(text string) error {
	switch value := f.value.Addr().Interface().(type) {
	case *queueName:
		name, err := names.Decode(text)
		*value = queueName(name)
		return err
	case *jobID:
		id, err := names.ID(text)
		*value = jobID(id)
		return err
	case *string:
		*value = text
	case *bool:
		is, known := map[string]bool{"true": true, "false": false}[text]
		if !known {
			return invalid(f.name, text, "must be true or false")
		}
		*value = is
	case *int:
		number, err := strconv.Atoi(text)
		if err != nil || strconv.Itoa(number) != text || !f.allows(number) {
			return invalid(f.name, text, fmt.Sprintf("must be a whole number from %s to %s", f.tag.Get("minimum"), f.tag.Get("maximum")))
		}
		*value = number
	case *Duration:
		duration, err := time.ParseDuration(text)
		if err != nil || duration <= 0 {
			return invalid(f.name, text, "must be a duration such as 10s, and more than 0")
		}
		*value = Duration(duration)
	case *time.Time:
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || at.UTC().Year() > 9999 || at.IsZero() {
			return invalid(f.name, text, "must be a time such as 2006-01-02T15:04:05Z")
		}
		*value = at
	default:
		panic(fmt.Sprintf("api: parameter %s has type %T", f.name, value))
	}
	return nil
}

// allows reports whether a number is within the bounds in the field's tags.
func (f field) allows(number int) bool {
	low, lowErr := strconv.Atoi(f.tag.Get("minimum"))
	high, highErr := strconv.Atoi(f.tag.Get("maximum"))
	return lowErr == nil && highErr == nil && number >= low && number <= high
}

func invalid(field, value, rule string) error {
	return &management.InvalidArgumentError{Field: field, Value: value, Rule: rule}
}
