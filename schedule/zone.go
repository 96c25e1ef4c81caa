package schedule

import "time"

// What the clocks of a zone show is held as a time in UTC that has the same date and
// the same hours, minutes and seconds. Two moments may show the same, and some of
// what UTC can show is never shown.

// shownAt is what the clocks show at a moment, in its zone.
func shownAt(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// shownWith is when the clocks would show something if they were set as they are at
// a moment.
func shownWith(shown, as time.Time) time.Time {
	_, offset := as.Zone()
	return shown.Add(-time.Duration(offset) * time.Second).In(as.Location())
}

// maxOffset is more than the clocks of any zone are, or were, ahead of UTC.
const maxOffset = 24 * time.Hour

// firstShown is the first moment at which the clocks of a zone show something; where
// they never do, it is the moment at which they are put forward past it.
func firstShown(shown time.Time, zone *time.Location) time.Time {
	for at := shown.Add(-maxOffset).In(zone); ; {
		start, end := at.ZoneBounds()
		found := shownWith(shown, at)
		switch {
		case found.Before(start):
			return start
		case end.IsZero() || found.Before(end):
			return found
		}
		at = end
	}
}
