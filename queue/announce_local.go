package queue

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/presence"
)

// localAnnouncer stores what a queue by reference has done, in notes in this process. It
// only counts until refresh is called before the notes are read.
type localAnnouncer struct {
	activity *activity.Recorder
	started  time.Time

	mu       sync.Mutex
	stored   uint64 // the version of the activity that was stored
	storedAt time.Time
}

func (a *localAnnouncer) init() { a.activity, a.started = activity.NewRecorder(), time.Now() }

// refresh stores what is new, unless it did so less than a second ago.
func (q *local) refresh(context.Context) error {
	a := &q.announcer
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.storedAt).Abs() < presence.Soon {
		return nil
	}
	changed, version := a.activity.Changed(now, a.stored)
	notes, err := activity.Notes(changed, q.id, a.started)
	if err != nil {
		return err
	}
	queues := []presence.Queue{{Name: q.id, Workers: q.numWorkers(), Started: q.isStarted()}}
	here, err := presence.Here(q.id, a.started, now, queues).Note()
	if err != nil {
		return err
	}
	if err := q.notes.Keep(append(notes, here)...); err != nil {
		return err
	}
	a.stored, a.storedAt = version, now
	a.activity.Forget(version)
	return nil
}
