package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timeFlag is a flag whose value is a time.
type timeFlag struct {
	at *time.Time
	// isAhead is true if the time is one to come: a duration must begin with +, because jobs start at once
	// if theirs has passed.
	isAhead bool
	// isRelative is true if the time was given as a duration from now.
	isRelative bool
}

// String returns the time.
func (f *timeFlag) String() string {
	if f.at == nil || f.at.IsZero() {
		return ""
	}
	return f.at.Format(time.RFC3339Nano)
}

// Type returns the name of the value in the help.
func (f *timeFlag) Type() string { return "time" }

// Set parses a time: an RFC 3339 time, a duration before now, or a duration after now if it
// begins with +.
func (f *timeFlag) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		*f.at, f.isRelative = at, false
		return nil
	}
	ahead, isAhead := strings.CutPrefix(text, "+")
	d, err := parseSpan(ahead)
	if err != nil {
		return fmt.Errorf("must be a time such as 2026-11-21T15:04:05Z, 2h for two hours ago, or +2h for in two hours")
	}
	if !isAhead && f.isAhead && d > 0 {
		return fmt.Errorf("must be +%s for in %[1]s: without + it is a time ago", text)
	}
	if !isAhead {
		d = -d
	}
	*f.at, f.isRelative = time.Now().Add(d), true
	return nil
}

// durationFlag is a flag whose value is a duration.
type durationFlag struct{ d *time.Duration }

// String returns the duration.
func (f durationFlag) String() string {
	if f.d == nil || *f.d == 0 {
		return ""
	}
	return f.d.String()
}

// Type returns the name of the value in the help.
func (f durationFlag) Type() string { return "duration" }

// Set parses a duration.
func (f durationFlag) Set(text string) error {
	d, err := parseSpan(text)
	if err != nil || d == 0 {
		return fmt.Errorf("must be a duration such as 30s, 15m, 2h or 1d")
	}
	*f.d = d
	return nil
}

// parseSpan is like time.ParseDuration with a unit for days and without signs.
func parseSpan(text string) (time.Duration, error) {
	if text == "" || strings.ContainsAny(text[:1], "+-") {
		return 0, fmt.Errorf("%q is not a duration", text)
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("parsing a number of days: %w", err)
		}
		return time.Duration(days) * 24 * time.Hour, nil
	}
	return time.ParseDuration(text)
}
