package schedule

import "time"

// A wall time is what the clocks of a zone show. It is represented as a time in UTC with
// the same date, hour, minute and second. Two moments can have the same wall time, and
// some wall times never occur.

// wallTime returns the wall time at a moment, in its zone.
func wallTime(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// momentAt returns the moment at which the clocks would show wall if their offset from UTC
// were the offset at the moment as.
func momentAt(wall, as time.Time) time.Time {
	_, offset := as.Zone()
	return wall.Add(-time.Duration(offset) * time.Second).In(as.Location())
}

// maxOffset is more than the offset from UTC of any zone at any time.
const maxOffset = 24 * time.Hour

// firstMoment returns the first moment at which the clocks of a zone show wall. If they
// never do, it returns the moment at which they are put forward past it.
func firstMoment(wall time.Time, zone *time.Location) time.Time {
	for at := wall.Add(-maxOffset).In(zone); ; {
		start, end := at.ZoneBounds()
		found := momentAt(wall, at)
		switch {
		case found.Before(start):
			return start
		case end.IsZero() || found.Before(end):
			return found
		}
		at = end
	}
}
