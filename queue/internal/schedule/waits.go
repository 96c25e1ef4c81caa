package schedule

import "time"

// clockSlack is by how much the clocks of two processes may differ before a wait is
// taken for one that a clock made too long which was ahead.
const clockSlack = 5 * time.Second

// Shortened is an entry whose wait was made shorter.
type Shortened[J any] struct {
	Entry *Entry[J]
	// By is how much earlier it is due.
	By time.Duration
	// Scheduled is true if its own times have changed, and false if it is Postponed.
	Scheduled bool
}

// ShortenWaits makes the waits begin now that are to begin later, as the clock was set
// back since: they end earlier, and are as long as before. Where an entry is Scheduled
// its DispatchBy moves with its WaitUntil. It looks at the entries that wait for a time
// only after the clock was set back.
func (s *Schedule[J]) ShortenWaits(now time.Time) []Shortened[J] {
	now = now.Round(0) // A monotonic reading would hide that the clock was set back.
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

// begin makes the wait of an entry begin now, which is due at a time.
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
