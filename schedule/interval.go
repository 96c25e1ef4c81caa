package schedule

import (
	"fmt"
	"time"
)

// minInterval is the shortest interval: a tick costs a few requests to a store.
const minInterval = time.Second

// interval is a schedule by elapsed time.
type interval struct {
	every, anchor int64 // in milliseconds; anchor counts from 1970
}

// Every returns a schedule of ticks at an interval of elapsed time, independent of changes
// of the clocks. anchor is one of the ticks, by which all processes agree on the others,
// before and after it. The zero time means the beginning of 1970 in UTC. Every returns an
// *InvalidError for an interval that is less than a second or not a whole number of
// milliseconds.
func Every(d time.Duration, anchor time.Time) (Schedule, error) {
	if d < minInterval || d%time.Millisecond != 0 {
		return nil, &InvalidError{Field: "interval", Value: d, Rule: fmt.Sprintf("must be at least %s, in whole milliseconds", minInterval)}
	}
	if anchor.IsZero() {
		anchor = time.UnixMilli(0)
	}
	return &interval{every: d.Milliseconds(), anchor: anchor.UnixMilli()}, nil
}

// Next implements Schedule.
func (i *interval) Next(after time.Time) time.Time {
	elapsed := after.UnixMilli() - i.anchor
	since := elapsed % i.every
	if since < 0 { // before the anchor
		since += i.every
	}
	return time.UnixMilli(i.anchor + elapsed - since + i.every).UTC()
}

// String describes the schedule.
func (i *interval) String() string {
	return fmt.Sprintf("every %s", time.Duration(i.every)*time.Millisecond)
}
