package management

import (
	"fmt"
	"strings"
)

// InvalidArgumentError says why a Manager does not accept an argument. Use errors.As
// to find it.
type InvalidArgumentError struct {
	// Field is what is wrong.
	Field string
	// Value is the value of that, or its beginning where it is long.
	Value string
	// Rule says what is allowed.
	Rule string
}

// Error names the field, its value and the rule.
func (e *InvalidArgumentError) Error() string {
	return fmt.Sprintf("invalid argument: %s %s (is %q)", e.Field, e.Rule, e.Value)
}

// shownLength is how much of a value an error shows.
const shownLength = 100

func invalid(field, value, rule string) error {
	if len(value) > shownLength {
		value = strings.ToValidUTF8(value[:shownLength], "") + "…"
	}
	return &InvalidArgumentError{Field: field, Value: value, Rule: rule}
}

// validateID returns an error for an ID that no job has.
func validateID(id string) error {
	if id == "" {
		return invalid("ID", id, "must not be empty")
	}
	return nil
}

func validateType(jobType string) error {
	if jobType == "" {
		return invalid("type", jobType, "must not be empty")
	}
	return nil
}
