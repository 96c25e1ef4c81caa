package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
	"github.com/mongodb/amboy/queue/internal/notes"
	"github.com/mongodb/amboy/registry"
)

const (
	// activityPeriod is the minimum interval between activity reports.
	activityPeriod = 10 * time.Second
	// farewellTimeout limits the last calls when the engine ends.
	farewellTimeout = 2 * time.Second
)

// announcer tells the other processes on a store, and management, which queues this
// process has and what it has done. It does so by notes in the store. It starts with the
// first queue.
type announcer struct {
	engine   *Engine
	activity *activity.Recorder
	started  time.Time
	timer    lifecycle.WakeTimer

	// turn has room for one caller, which may use the fields below up to closed.
	turn chan struct{}
	// stored is the version of the activity that was stored last.
	stored uint64
	// refreshedAt is when refresh last stored everything.
	refreshedAt time.Time
	// announcedAt is when this process was last announced; zero if it was not.
	announcedAt time.Time
	// closed is true once this process was deregistered.
	closed bool

	mu sync.Mutex
	// begun is true once a queue has started. changed is true if queues were opened or
	// closed since the last announcement.
	begun, changed bool
}

func newAnnouncer(e *Engine) *announcer {
	a := &announcer{engine: e, activity: activity.NewRecorder(), started: e.Now(), turn: make(chan struct{}, 1)}
	a.timer.Fire = e.inBackground(a.announce)
	return a
}

// queueStarted is called when a queue has started, and queuesChanged when anything else
// changes that is announced about queues.
func (a *announcer) queueStarted() {
	a.mu.Lock()
	first := !a.begun
	a.begun, a.changed = true, true
	a.mu.Unlock()
	a.announceWithin(presence.Soon, first)
}

func (a *announcer) queuesChanged() {
	a.mu.Lock()
	begun := a.begun
	a.changed = true
	a.mu.Unlock()
	if begun {
		a.announceWithin(presence.Soon, false)
	}
}

func (a *announcer) announceWithin(d time.Duration, atOnce bool) {
	if atOnce {
		d = 0
	}
	a.timer.Set(a.engine.Now().Add(d))
}

// activityChanged schedules a report of new activity.
func (a *announcer) activityChanged(now time.Time) { a.timer.Set(now.Add(activityPeriod)) }

// announce stores what is due. After it has announced this process, it applies the
// operator's worker counts.
func (a *announcer) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, DriverTimeout)
	defer cancel()
	if !a.take(ctx) {
		a.activityChanged(a.engine.Now()) // another caller waits for the store; try again later
		return
	}
	defer a.leave()
	announced, err := a.storeNew(ctx)
	now := a.engine.Now()
	if err != nil {
		a.activityChanged(now)
	}
	if a.hasBegun() {
		a.timer.Set(now.Add(presence.Period))
	}
	if err == nil && announced {
		err = a.applyWorkerCounts(ctx)
	}
	a.engine.Report("could not announce this process to its peers", err)
}

// Refresh stores what is new, unless it did so less than a second ago and no queue was
// opened or closed since.
func (a *announcer) Refresh(ctx context.Context) error {
	if !a.take(ctx) {
		return ctx.Err()
	}
	defer a.leave()
	now := a.engine.Now()
	if a.closed || now.Sub(a.refreshedAt).Abs() < presence.Soon && !a.hasChanged() {
		return nil
	}
	if a.announcedAt.IsZero() {
		a.setChanged()
	}
	_, err := a.storeNew(ctx)
	if err == nil {
		a.refreshedAt = now
	}
	return err
}

// take waits for its turn. It returns false if ctx ends first.
func (a *announcer) take(ctx context.Context) bool {
	select {
	case a.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *announcer) leave() { <-a.turn }

func (a *announcer) hasBegun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

func (a *announcer) hasChanged() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

func (a *announcer) setChanged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = true
}

// takeChanged reports whether this process is to be announced now.
func (a *announcer) takeChanged(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	isDue := a.changed || a.begun && now.Sub(a.announcedAt).Abs() >= presence.Period
	a.changed = false
	return isDue
}

// storeNew stores what is new, with one call of the driver. announced reports whether
// this process was announced.
func (a *announcer) storeNew(ctx context.Context) (announced bool, err error) {
	now := a.engine.Now()
	news, version, err := a.newActivity(now)
	announced = a.takeChanged(now)
	if announced && err == nil {
		var here driver.Note
		here, err = a.engine.presence(a.started, now).Note()
		news = append(news, here)
	}
	if err == nil && len(news) > 0 {
		err = contain.Panic(func() error { return a.engine.Driver.Keep(ctx, news...) })
	}
	if err != nil {
		if announced {
			a.setChanged()
		}
		return false, err
	}
	a.stored = version
	a.activity.Forget(version)
	if announced {
		a.announcedAt = now
	}
	return announced, nil
}

// newActivity returns the notes of the activity that is not stored yet.
func (a *announcer) newActivity(now time.Time) (news []driver.Note, version uint64, err error) {
	changed, version := a.activity.Changed(now, a.stored)
	news, err = activity.Notes(changed, a.engine.ID, a.started)
	return news, version, err
}

// presence describes this process and its queues.
func (e *Engine) presence(started, now time.Time) presence.Process {
	open := e.openQueueList()
	queues := make([]presence.Queue, len(open))
	for i, q := range open {
		queues[i] = presence.Queue{Name: q.Name, Workers: q.NumWorkers(), Started: q.IsStarted()}
	}
	p := presence.Here(e.ID, started, now, queues)
	known := registry.KnownTypes()
	p.Types, p.Managers, p.Unknown = typesOf(known.Jobs), typesOf(known.Managers), e.unknownKindsToReport()
	return p
}

// typesOf never returns nil, which would mean that the process does not report its types.
func typesOf(known []registry.KnownType) []presence.Type {
	types := make([]presence.Type, len(known))
	for i, k := range known {
		types[i] = presence.Type(k)
	}
	return types
}

// applyWorkerCounts reads the operator's numbers of workers, and applies them.
func (a *announcer) applyWorkerCounts(ctx context.Context) error {
	wanted := map[string]int{}
	timesSet := a.engine.timesWorkersSet()
	err := notes.Each(ctx, a.engine.Driver, driver.NoteRequest{Kind: presence.WorkersKind}, func(note driver.Note) error {
		name, n, err := presence.WorkersOf(note)
		if err == nil {
			wanted[name] = n
		}
		a.engine.Report("could not read the number of workers of a queue", err)
		return nil
	})
	if err == nil {
		a.engine.applyWorkerCounts(wanted, timesSet)
	}
	return err
}

// close stores the last activity, and deregisters this process. The timer was stopped
// before.
func (a *announcer) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	if !a.take(ctx) {
		return
	}
	defer a.leave()
	a.closed = true
	err := contain.Panic(func() error { return a.farewell(ctx) })
	if err != nil && !errors.Is(err, driver.ErrClosed) {
		logging.Error(ctx, a.engine.Failure("failed to deregister; peers will treat this process as dead", err))
	}
}

func (a *announcer) farewell(ctx context.Context) error {
	news, version, err := a.newActivity(a.engine.Now())
	if err == nil && len(news) > 0 {
		err = a.engine.Driver.Keep(ctx, news...)
	}
	if err == nil {
		a.stored = version
	}
	if !a.announcedAt.IsZero() {
		err = errors.Join(err, a.engine.Driver.Drop(ctx, presence.ProcessKind, a.engine.ID))
	}
	return err
}
