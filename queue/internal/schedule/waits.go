package schedule

import "time"

// clockSlack is how far in the future a wait may begin before it counts as set by a clock
// that was ahead.
const clockSlack = 5 * time.Second

// Shortened is an entry whose wait was shortened.
type Shortened[J any] struct {
	Entry *Entry[J]
	// By is how much earlier it is due.
	By time.Duration
	// Scheduled is true if the entry's own times have changed, and false if it is Postponed.
	Scheduled bool
}

// ShortenWaits corrects waits whose beginning is in the future, because the clock was set back
// since: they begin now, keep their length, and so end earlier. If an entry is Scheduled, its
// DispatchBy moves with its WaitUntil. The waiting entries are read only after the clock was set back.
func (s *Schedule[J]) ShortenWaits(now time.Time) []Shortened[J] {
	now = now.Round(0) // A monotonic clock reading would hide that the clock was set back.
	limit := now.Add(clockSlack)
	if !s.latestSince.After(limit) {
		return nil
	}
	s.latestSince = now
	var shortened []Shortened[J]
	for _, slot := range s.timers.all() {
		e := slot.entry
		switch {
		case e.Since.After(limit):
			by := e.Since.Sub(now)
			shortened = append(shortened, Shortened[J]{e, by, e.place == Scheduled})
			s.begin(e, slot.key, by, now)
		case e.Since.After(s.latestSince):
			s.latestSince = e.Since
		}
	}
	return shortened
}

// begin moves the beginning of an entry's wait to now, and its end earlier by the same time.
func (s *Schedule[J]) begin(e *Entry[J], due int64, by time.Duration, now time.Time) {
	scheduled := e.place == Scheduled
	s.leave(e)
	e.Since = e.Since.Add(-by)
	if scheduled {
		e.WaitUntil = e.WaitUntil.Add(-by)
		if !e.DispatchBy.IsZero() {
			e.DispatchBy = e.DispatchBy.Add(-by)
		}
	}
	s.watchDeadline(e)
	if scheduled {
		s.wait(e, now)
		return
	}
	s.timers.push(e.slot(due - int64(by)))
}

func (s *Schedule[J]) setSince(e *Entry[J], since time.Time) {
	since = since.Round(0)
	e.Since = since
	if since.After(s.latestSince) {
		s.latestSince = since
	}
}
