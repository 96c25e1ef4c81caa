package schedule

import (
	"fmt"
	"unicode/utf8"
)

// InvalidError says what is wrong with a schedule.
type InvalidError struct {
	// Schedule is the name under which it was to be added; empty for one that
	// has none yet.
	Schedule string
	// Field is what is wrong: "cron expression", "time zone", "interval", "name", …
	Field string
	// Value is the value of that.
	Value any
	// Rule says what is allowed.
	Rule string
	// Err is why the value is refused, where something else said so; else nil.
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

// shownRunes is how much of a text an error shows.
const shownRunes = 200

// printable quotes what is text, and cuts it.
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

// DuplicateNameError says that a scheduler has a schedule of that name.
type DuplicateNameError struct{ Name string }

// Error names the schedule.
func (e *DuplicateNameError) Error() string {
	return fmt.Sprintf("there is a schedule %q already", e.Name)
}
