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
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/publictext"
)

// tell lets the queue know of the schedules, for people to see. Where that fails it is
// tried again the next time; the schedules work all the same.
func (s *Scheduler) tell(ctx context.Context, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	untold, removed := s.untold(now)
	if len(untold) == 0 && len(removed) == 0 {
		return
	}
	err := recovering(func() error {
		q, err := s.target.open(ctx)
		if err != nil || q.teller == nil {
			return err
		}
		if len(removed) > 0 {
			err = q.teller.ForgetSchedules(ctx, removed...)
		}
		if infos := s.infosOf(untold); len(infos) > 0 {
			err = errors.Join(err, q.teller.TellSchedules(ctx, infos...))
		}
		return err
	})
	first := s.told(untold, removed, err)
	if first && ctx.Err() == nil && !s.target.isGone(err) {
		logging.Warning(ctx, message.Fields{
			"message": "could not make known how schedules stand; trying again",
			"queue":   s.target.name(),
			"error":   err.Error(),
		})
	}
}

// untold are the schedules of which is to be told, by name, and the names of those that
// were removed.
func (s *Scheduler) untold(now time.Time) (untold []*entry, removed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.toldAt.IsZero() || now.Sub(e.toldAt).Abs() >= s.target.tellAgain() {
			untold = append(untold, e)
			e.toldAt = now
		}
	}
	slices.SortFunc(untold, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	for _, name := range s.removed {
		if s.entries[name] == nil {
			removed = append(removed, name)
		}
	}
	s.removed = nil
	return untold, removed
}

// told takes down whether it was. It returns true for the first failure in a row.
func (s *Scheduler) told(untold []*entry, removed []string, err error) (firstFailure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for _, e := range untold {
			e.toldAt = time.Time{}
		}
		s.removed = append(s.removed, removed...)
	}
	firstFailure = err != nil && !s.tellingFails
	s.tellingFails = err != nil
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
		info.Error = toldOf(e.err)
	}
	return info
}

// toldOf is what a queue is told of an error, which all can read who see its schedules: not
// what a store says, which may name hosts and users. The log has that.
func toldOf(err error) string {
	if text, ok := publictext.Of(err, publictext.As[*jobError], publictext.As[*InvalidError]); ok {
		return text
	}
	return "the job could not be put; the log of its process says why"
}

// specOf is what a schedule says of itself, or else its type.
func specOf(schedule Schedule) string {
	if s, ok := schedule.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", schedule)
}
