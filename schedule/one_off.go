package schedule

import (
	"slices"
	"strings"
	"time"
)

// times is a schedule of listed ticks.
type times []time.Time

// At returns a schedule of one-off ticks, which may be given in any order. Fractions of a
// millisecond are cut off. It returns an *InvalidError without ticks, and for the zero
// time.
func At(ticks ...time.Time) (Schedule, error) {
	if len(ticks) == 0 {
		return nil, &InvalidError{Field: "times", Value: ticks, Rule: "must be at least one"}
	}
	sorted := make(times, len(ticks))
	for i, tick := range ticks {
		if tick.IsZero() {
			return nil, &InvalidError{Field: "time", Value: tick, Rule: "must not be the zero time"}
		}
		sorted[i] = wholeMilliseconds(tick)
	}
	slices.SortFunc(sorted, time.Time.Compare)
	return sorted, nil
}

// Next implements Schedule.
func (t times) Next(after time.Time) time.Time {
	for _, tick := range t {
		if tick.After(after) {
			return tick
		}
	}
	return time.Time{}
}

// String lists the ticks.
func (t times) String() string {
	texts := make([]string, len(t))
	for i, tick := range t {
		texts[i] = tick.Format(time.RFC3339Nano)
	}
	return "at " + strings.Join(texts, ", ")
}

// wholeMilliseconds returns t as a store keeps it.
func wholeMilliseconds(t time.Time) time.Time { return t.Round(0).Truncate(time.Millisecond) }
