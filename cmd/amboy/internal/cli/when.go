package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// when is the value of a flag that is a time.
type when struct{ at *time.Time }

// String returns the time.
func (w when) String() string {
	if w.at == nil || w.at.IsZero() {
		return ""
	}
	return w.at.Format(time.RFC3339Nano)
}

// Type is what the help calls the value.
func (w when) Type() string { return "time" }

// Set reads a time: one as RFC 3339 has it, or a span that has passed since then, or
// that is to pass where it begins with +.
func (w when) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		*w.at = at
		return nil
	}
	ahead, isAhead := strings.CutPrefix(text, "+")
	d, err := parseSpan(ahead)
	if err != nil {
		return fmt.Errorf("must be a time such as 2026-11-21T15:04:05Z, 2h for two hours ago, or +2h for in two hours")
	}
	if !isAhead {
		d = -d
	}
	*w.at = time.Now().Add(d)
	return nil
}

// length is the value of a flag that is a length of time.
type length struct{ d *time.Duration }

// String returns the length.
func (l length) String() string {
	if l.d == nil || *l.d == 0 {
		return ""
	}
	return l.d.String()
}

// Type is what the help calls the value.
func (l length) Type() string { return "duration" }

// Set reads a length.
func (l length) Set(text string) error {
	d, err := parseSpan(text)
	if err != nil || d == 0 {
		return fmt.Errorf("must be a length of time such as 30s, 15m, 2h or 1d")
	}
	*l.d = d
	return nil
}

// parseSpan is time.ParseDuration that knows days, and no signs.
func parseSpan(text string) (time.Duration, error) {
	if text == "" || strings.ContainsAny(text[:1], "+-") {
		return 0, fmt.Errorf("%q is no length of time", text)
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("reading a number of days: %w", err)
		}
		return time.Duration(days) * 24 * time.Hour, nil
	}
	return time.ParseDuration(text)
}
