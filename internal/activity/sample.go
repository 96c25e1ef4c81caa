package activity

import (
	"context"
	"errors"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// SampleBacklog stores the backlogs of the queues of a store at a time, as those of its minute
// and as a part of those of its hour and its six hours. Two calls for one store must not run at
// the same time; otherwise the sample of one of them may be missing from a longer step. It
// returns the backlog of all queues.
func SampleBacklog(ctx context.Context, admin driver.Admin, now time.Time) (Backlog, error) {
	sample, err := readBacklogs(ctx, admin, now)
	if err != nil {
		return Backlog{}, err
	}
	notes := make([]driver.Note, len(steps))
	var unreadable []error
	for step := range notes {
		b := sample.In(Step(step), now)
		stored, err := storedBacklogs(ctx, admin, Step(step), b.Start)
		switch {
		case err != nil:
			unreadable = append(unreadable, err) // the sample replaces it
		case stored != nil:
			b.Merge(*stored)
		}
		notes[step] = b.Note("")
	}
	return sample.Sum, errors.Join(append(unreadable, admin.Keep(ctx, notes...))...)
}

// readBacklogs reads the backlogs from what the store keeps about its queues.
func readBacklogs(ctx context.Context, admin driver.Admin, now time.Time) (Backlogs, error) {
	sum := admin.SumQueues
	if s, ok := admin.(driver.UnfinishedSummer); ok {
		sum = s.SumUnfinished
	}
	totals, err := sum(ctx, MaxBacklogs)
	if err != nil {
		return Backlogs{}, err
	}
	var ready []string
	for _, info := range totals.Busiest {
		if info.Ready() > 0 || info.Scheduled > 0 {
			ready = append(ready, info.Name)
		}
	}
	var oldest map[string]time.Time
	if len(ready) > 0 {
		oldest, err = admin.OldestReady(ctx, ready, now)
	}
	return BacklogOf(totals, oldest, now), err
}

// storedBacklogs reads the backlogs of a step; nil if there are none.
func storedBacklogs(ctx context.Context, admin driver.Admin, step Step, start time.Time) (*Backlogs, error) {
	key := KeyOf(start)
	notes, err := admin.Notes(ctx, driver.NoteRequest{Kind: BacklogKind(step), From: key, To: key + "\x00", Limit: 1})
	if err != nil || len(notes) == 0 {
		return nil, err
	}
	b, err := DecodeBacklogs(notes[0].Value)
	return &b, err
}
