package management

import (
	"fmt"
	"strings"
)

// InvalidArgumentError reports why an argument was refused. Use errors.As to find it.
type InvalidArgumentError struct {
	// Field names the argument or field.
	Field string
	// Value is its value, cut if it is long.
	Value string
	// Rule states what is allowed.
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

// validateID returns an error for an empty ID.
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
