package schedule

import "time"

// Schedule returns the times at which something is due. Implementations must be safe for
// concurrent use, and Next must depend only on its argument, so that all processes agree.
type Schedule interface {
	// Next returns the first tick after a time, or the zero time if no tick follows. Ticks
	// must be whole milliseconds.
	Next(after time.Time) time.Time
}

// Upcoming returns the first n ticks of a schedule after a time, or fewer if the schedule
// ends.
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
