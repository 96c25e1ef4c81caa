package schedule

import (
	"fmt"
	"unicode/utf8"
)

// InvalidError is returned for an invalid schedule.
type InvalidError struct {
	// Schedule is the name under which it was to be added; empty if it has no name yet.
	Schedule string
	// Field is the invalid field: "cron expression", "time zone", "interval", "name", …
	Field string
	// Value is the field's value.
	Value any
	// Rule is what the field must satisfy.
	Rule string
	// Err is the cause, if there is one, or nil.
	Err error
}

// Error names the schedule, the field, its value and the rule.
func (e *InvalidError) Error() string {
	text := "invalid schedule"
	if e.Schedule != "" {
		text += fmt.Sprintf(" %q", e.Schedule)
	}
	text += fmt.Sprintf(": %s %s (is %s)", e.Field, e.Rule, printable(e.Value))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *InvalidError) Unwrap() error { return e.Err }

// shownRunes is the maximum number of runes of a text in an error.
const shownRunes = 200

// printable quotes and truncates texts.
func printable(v any) string {
	switch v := v.(type) {
	case string:
		if utf8.RuneCountInString(v) > shownRunes {
			return fmt.Sprintf("%.*q…", shownRunes, v)
		}
		return fmt.Sprintf("%q", v)
	case CatchUp:
		return fmt.Sprintf("%q", string(v))
	default:
		return fmt.Sprint(v)
	}
}

// DuplicateNameError means that the scheduler already has a schedule of that name.
type DuplicateNameError struct{ Name string }

// Error names the schedule.
func (e *DuplicateNameError) Error() string {
	return fmt.Sprintf("schedule %q already exists", e.Name)
}
