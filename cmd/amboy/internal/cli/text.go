package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// oneLine joins the lines of a text.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// cut shortens a text to a width; 0 stands for any.
func cut(text string, width int) string {
	if width == 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// age tells how long ago a time was, or how long it is until then.
func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	if d := time.Since(t); d >= 0 {
		return span(d)
	}
	return "in " + span(time.Until(t))
}

// span is a time of some length in its largest unit.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return fmt.Sprintf("%ds", d/time.Second)
	}
}

// moment is a time with its age.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	if time.Until(t) > 0 {
		return stamp(t) + " (" + age(t) + ")"
	}
	return stamp(t) + " (" + age(t) + " ago)"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// seconds is a time with its first three digits.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

func percent(part float64) string { return fmt.Sprintf("%.0f%%", 100*part) }

// named is a name that may be empty.
func named(name string) string {
	if name == "" {
		return `""`
	}
	return name
}
