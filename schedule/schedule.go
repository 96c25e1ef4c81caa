package schedule

import "time"

// Schedule tells at which times something is due. Implementations must be safe for
// concurrent use, and Next must depend on nothing but its argument, so that all
// processes agree.
type Schedule interface {
	// Next returns the first tick after a time; the zero time where there is none
	// any more. Ticks are whole milliseconds.
	Next(after time.Time) time.Time
}

// Upcoming returns the first n ticks of a schedule after a time; fewer where there
// are no more.
func Upcoming(s Schedule, after time.Time, n int) []time.Time {
	var ticks []time.Time
	for len(ticks) < n {
		after = s.Next(after)
		if after.IsZero() {
			break
		}
		ticks = append(ticks, after)
	}
	return ticks
}
