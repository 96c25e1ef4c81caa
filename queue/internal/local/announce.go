package local

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
	Activity *activity.Recorder
	started  time.Time

	mu       sync.Mutex
	stored   uint64 // the version of the activity that was stored
	storedAt time.Time
}

func (a *localAnnouncer) init() { a.Activity, a.started = activity.NewRecorder(), time.Now() }

// Refresh stores what is new, unless it did so less than a second ago.
func (q *Queue) Refresh(context.Context) error {
	a := &q.Announcer
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.storedAt).Abs() < presence.Soon {
		return nil
	}
	changed, version := a.Activity.Changed(now, a.stored)
	notes, err := activity.Notes(changed, q.ID(), a.started)
	if err != nil {
		return err
	}
	queues := []presence.Queue{{Name: q.ID(), Workers: q.NumWorkers(), Started: q.IsStarted()}}
	here, err := presence.Here(q.ID(), a.started, now, queues).Note()
	if err != nil {
		return err
	}
	if err := q.notes.Keep(append(notes, here)...); err != nil {
		return err
	}
	a.stored, a.storedAt = version, now
	a.Activity.Forget(version)
	return nil
}
