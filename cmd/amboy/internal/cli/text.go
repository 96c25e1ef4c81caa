package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// oneLine joins the lines of a text with semicolons.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// cut shortens a text to a width; 0 means no limit.
func cut(text string, width int) string {
	if width == 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// age formats the time since t, or until t if it is in the future.
func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	if d := time.Since(t); d >= 0 {
		return span(d)
	}
	return "in " + span(time.Until(t))
}

// span formats a duration in its largest unit.
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

// moment formats a time with its age.
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

// seconds formats a duration with three significant digits.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// between formats the time from one moment to another; "-" if one is unknown.
func between(from, to time.Time) string {
	if from.IsZero() || to.Before(from) {
		return "-"
	}
	return seconds(to.Sub(from).Seconds())
}

func percent(part float64) string { return fmt.Sprintf("%.0f%%", 100*part) }

// nameOf returns a name, quoted if it is empty.
func nameOf(name string) string {
	if name == "" {
		return `""`
	}
	return name
}
