package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/records"
	"github.com/mongodb/amboy/queue/driver"
)

// reencodePage is the number of jobs that Reencode reads at a time.
const reencodePage = 100

// Reencode encodes waiting jobs with the codec and the key that their queue uses now, if they
// were encoded with others, so that an old key can be removed sooner. It returns how many jobs it
// has stored. Running jobs are encoded when they end. Ended jobs stay as they are until their
// retention is over. Call it after all processes have the new key: a process without it leaves
// the jobs to others.
//
// It blocks until it has read all waiting jobs. After an error of the store it stops. It skips
// jobs that can't be decoded, and its error names the first of them. Calling it again
// continues. It may run while jobs are put and run, in several processes.
func (s *Store) Reencode(ctx context.Context) (done int, err error) {
	if s.driver == nil {
		return 0, fmt.Errorf("encoding jobs again: %w", ErrByReference)
	}
	waiting := driver.Query{
		Queues: s.queues, Latest: true,
		States: []amboy.JobState{amboy.StateScheduled, amboy.StatePending, amboy.StateBlocked, amboy.StateParked, amboy.StateRetrying},
	}
	var left error
	for r, failed := range records.Each(ctx, s.driver, waiting, driver.PageRequest{Limit: reencodePage}) {
		if failed != nil {
			return done, fmt.Errorf("encoding jobs again: %w", failed)
		}
		again, failed := s.formOf(r.Group).Again(r)
		if failed != nil && left == nil {
			left = fmt.Errorf("encoding jobs again: %w", failed)
		}
		if again == nil {
			continue
		}
		switch failed = s.driver.Save(ctx, again); {
		case failed == nil:
			done++
		case errors.Is(failed, amboy.ErrLeaseLost) || amboy.IsJobNotFoundError(failed): // it has changed since
		default:
			return done, fmt.Errorf("encoding job %q of queue %q again: %w", r.JobID(), r.Group, failed)
		}
	}
	return done, left
}
