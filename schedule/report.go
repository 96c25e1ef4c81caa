package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/loop"
	"github.com/mongodb/amboy/internal/publictext"
)

// report reports new states of schedules to the queue, for operators. If that fails, it is
// tried again at the next call; the schedules are not affected.
func (s *Scheduler) report(ctx context.Context, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	unreported, removed := s.unreported(now)
	if len(unreported) == 0 && len(removed) == 0 {
		return
	}
	err := contain.Alone(func() error {
		q, err := s.target.open(ctx)
		if err != nil || q.teller == nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, loop.CallTime)
		defer cancel()
		if len(removed) > 0 {
			err = q.teller.ForgetSchedules(limited, removed...)
		}
		if infos := s.infosOf(unreported); len(infos) > 0 {
			err = errors.Join(err, q.teller.TellSchedules(limited, infos...))
		}
		return err
	})
	first := s.recordReport(unreported, removed, err)
	if first && ctx.Err() == nil && !s.target.isGone(err) {
		logging.Warning(ctx, message.Fields{
			"message": "reporting the state of schedules to the queue failed; trying again",
			"queue":   s.target.name(),
			"error":   err.Error(),
		})
	}
}

// unreported returns the schedules whose state is to be reported, sorted by name, and the
// names of schedules that were removed. It marks them as reported.
func (s *Scheduler) unreported(now time.Time) (unreported []*entry, removed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.reportedAt.IsZero() || now.Sub(e.reportedAt).Abs() >= s.target.reportInterval() {
			unreported = append(unreported, e)
			e.reportedAt = now
		}
	}
	slices.SortFunc(unreported, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	for _, name := range s.removed {
		if s.entries[name] == nil {
			removed = append(removed, name)
		}
	}
	s.removed = nil
	return unreported, removed
}

// recordReport records whether a report succeeded; after a failure the schedules count as
// unreported again. It returns true for the first failure in a row.
func (s *Scheduler) recordReport(unreported []*entry, removed []string, err error) (firstFailure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for _, e := range unreported {
			e.reportedAt = time.Time{}
		}
		s.removed = append(s.removed, removed...)
	}
	firstFailure = err != nil && !s.reportFailing
	s.reportFailing = err != nil
	return firstFailure
}

// infosOf describes schedules for the queue.
func (s *Scheduler) infosOf(entries []*entry) []amboy.ScheduleInfo {
	infos := make([]amboy.ScheduleInfo, len(entries))
	for i, e := range entries {
		infos[i] = s.infoOf(e)
	}
	return infos
}

func (s *Scheduler) infoOf(e *entry) amboy.ScheduleInfo {
	spec := specOf(e.schedule)
	s.mu.Lock()
	defer s.mu.Unlock()
	info := amboy.ScheduleInfo{Name: e.name, Spec: spec, CatchUp: string(e.catchUp), Last: e.last, Next: e.next}
	if e.err != nil {
		info.Error = publicText(e.err)
	}
	return info
}

// publicText returns the text of an error for the queue, where every user who can list
// schedules can read it. It omits errors of the store, which may name hosts and users; the
// log has them.
func publicText(err error) string {
	if text, ok := publictext.Of(err, publictext.As[*jobError], publictext.As[*InvalidError]); ok {
		return text
	}
	return "the job could not be enqueued; see the log of its process"
}

// specOf returns the description of a schedule, or its type if it has none.
func specOf(schedule Schedule) string {
	if s, ok := schedule.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", schedule)
}
