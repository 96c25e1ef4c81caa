package queue

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

const (
	// activityPeriod is how often is told what this process has done, at most.
	activityPeriod = 10 * time.Second
	// announceSoon is how long it takes until is told of a queue that came or went.
	announceSoon = time.Second
	// farewellTimeout bounds what is told at the end.
	farewellTimeout = 2 * time.Second
	// notesAtOnce is the number of notes that one call reads.
	notesAtOnce = 1000
)

// announcer tells the other processes on a store what this one has, and has done, by
// notes that they and people read. It begins when the first queue does.
type announcer struct {
	engine   *engine
	activity *activity.Recorder
	started  time.Time
	timer    wakeTimer

	// turn has room for whoever is telling, who has the fields below it.
	turn chan struct{}
	// told is the version of the activity that was told last.
	told uint64
	// refreshedAt is when somebody last had everything told.
	refreshedAt time.Time
	// saidAt is when was said that this process is there; zero before the first time.
	saidAt time.Time
	// closed is true when was said that this process is gone.
	closed bool

	mu sync.Mutex
	// begun is true from when a queue has started, and changed where queues came or
	// went since the last time.
	begun, changed bool
}

func newAnnouncer(e *engine) *announcer {
	a := &announcer{engine: e, activity: activity.NewRecorder(), started: e.now(), turn: make(chan struct{}, 1)}
	a.timer.fire = e.inBackground(a.announce)
	return a
}

// queueStarted is called when a queue has, and queuesChanged whenever there is something
// new to say of the queues.
func (a *announcer) queueStarted() {
	a.mu.Lock()
	first := !a.begun
	a.begun, a.changed = true, true
	a.mu.Unlock()
	a.announceWithin(announceSoon, first)
}

func (a *announcer) queuesChanged() {
	a.mu.Lock()
	begun := a.begun
	a.changed = true
	a.mu.Unlock()
	if begun {
		a.announceWithin(announceSoon, false)
	}
}

func (a *announcer) announceWithin(d time.Duration, atOnce bool) {
	if atOnce {
		d = 0
	}
	a.timer.set(a.engine.now().Add(d))
}

// tellActivity makes known before long that there is something new.
func (a *announcer) tellActivity(now time.Time) { a.timer.set(now.Add(activityPeriod)) }

// announce tells what is due, and looks what others want of this process when it says
// that it is there.
func (a *announcer) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	if !a.take(ctx) {
		a.tellActivity(a.engine.now()) // somebody waits for the store, and it is tried again
		return
	}
	defer a.leave()
	said, err := a.tell(ctx)
	now := a.engine.now()
	if err != nil {
		a.tellActivity(now)
	}
	if a.hasBegun() {
		a.timer.set(now.Add(presence.Period))
	}
	if err == nil && said {
		err = a.obey(ctx)
	}
	a.engine.report("could not tell other processes of this one", err)
}

// refresh tells what is new, unless it did so less than a second ago, and no queue has
// come or gone since.
func (a *announcer) refresh(ctx context.Context) error {
	if !a.take(ctx) {
		return ctx.Err()
	}
	defer a.leave()
	now := a.engine.now()
	if a.closed || now.Sub(a.refreshedAt).Abs() < announceSoon && !a.hasChanged() {
		return nil
	}
	if a.saidAt.IsZero() {
		a.setChanged()
	}
	_, err := a.tell(ctx)
	if err == nil {
		a.refreshedAt = now
	}
	return err
}

// take waits for its turn to tell; false where ctx ends first.
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

// takeChanged tells whether it is time to say that this process is there.
func (a *announcer) takeChanged(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	isDue := a.changed || a.begun && now.Sub(a.saidAt).Abs() >= presence.Period
	a.changed = false
	return isDue
}

// tell stores what is new, with one call of the driver. It returns whether it said that
// this process is there.
func (a *announcer) tell(ctx context.Context) (said bool, err error) {
	now := a.engine.now()
	notes, version, err := a.newActivity(now)
	said = a.takeChanged(now)
	if said && err == nil {
		var here driver.Note
		here, err = a.engine.presence(a.started, now).Note()
		notes = append(notes, here)
	}
	if err == nil && len(notes) > 0 {
		err = errorOfPanic(func() error { return a.engine.driver.Keep(ctx, notes...) })
	}
	if err != nil {
		if said {
			a.setChanged()
		}
		return false, err
	}
	a.told = version
	a.activity.Forget(version)
	if said {
		a.saidAt = now
	}
	return said, nil
}

// newActivity has the notes of the activity that was not told.
func (a *announcer) newActivity(now time.Time) (notes []driver.Note, version uint64, err error) {
	changed, version := a.activity.Changed(now, a.told)
	notes, err = activityNotes(changed, a.engine.id, a.started)
	return notes, version, err
}

// activityNotes are those of what a process has done, from its start. A process that
// is started again may have the ID of the one before.
func activityNotes(buckets []activity.Bucket, process string, started time.Time) ([]driver.Note, error) {
	name := process + "." + strconv.FormatInt(started.UnixMilli(), 36)
	notes := make([]driver.Note, len(buckets))
	for i, b := range buckets {
		note, err := b.Note(name)
		if err != nil {
			return nil, err
		}
		notes[i] = note
	}
	return notes, nil
}

// presence describes this process.
func (e *engine) presence(started, now time.Time) presence.Process {
	e.mu.Lock()
	open := make([]*driverQueue, 0, len(e.queues))
	for _, q := range e.queues {
		open = append(open, q)
	}
	e.mu.Unlock()
	queues := make([]presence.Queue, len(open))
	for i, q := range open {
		queues[i] = presence.Queue{Name: q.name, Workers: q.numWorkers(), Started: q.isStarted()}
	}
	p := processOf(e.id, started, now, queues)
	known := registry.KnownTypes()
	p.Types, p.Managers, p.Unknown = typesOf(known.Jobs), typesOf(known.Managers), e.unknownKinds()
	return p
}

// typesOf never returns nil: the process says what it knows.
func typesOf(known []registry.KnownType) []presence.Type {
	types := make([]presence.Type, len(known))
	for i, k := range known {
		types[i] = presence.Type(k)
	}
	return types
}

// processOf describes this process under an ID that owns jobs.
func processOf(id string, started, now time.Time, queues []presence.Queue) presence.Process {
	slices.SortFunc(queues, func(a, b presence.Queue) int { return strings.Compare(a.Name, b.Name) })
	return presence.Process{ID: id, Host: hostname(), PID: os.Getpid(), Started: started, Seen: now, Queues: queues}
}

// obey reads what numbers of workers people want, and goes by them.
func (a *announcer) obey(ctx context.Context) error {
	wanted := map[string]int{}
	timesSet := a.engine.timesWorkersSet()
	err := eachNote(ctx, a.engine.driver, driver.NoteRequest{Kind: presence.WorkersKind}, func(note driver.Note) error {
		name, n, err := presence.WorkersOf(note)
		if err == nil {
			wanted[name] = n
		}
		a.engine.report("could not read how many workers a queue is to have", err)
		return nil
	})
	if err == nil {
		a.engine.obey(wanted, timesSet)
	}
	return err
}

// close tells what is new for the last time, and that this process is gone. The timer
// was stopped.
func (a *announcer) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	if !a.take(ctx) {
		return
	}
	defer a.leave()
	a.closed = true
	err := errorOfPanic(func() error { return a.farewell(ctx) })
	if err != nil && !errors.Is(err, driver.ErrClosed) {
		logging.Error(ctx, a.engine.failure("could not tell other processes that this one is gone", err))
	}
}

func (a *announcer) farewell(ctx context.Context) error {
	notes, version, err := a.newActivity(a.engine.now())
	if err == nil && len(notes) > 0 {
		err = a.engine.driver.Keep(ctx, notes...)
	}
	if err == nil {
		a.told = version
	}
	if !a.saidAt.IsZero() {
		err = errors.Join(err, a.engine.driver.Drop(ctx, presence.ProcessKind, a.engine.id))
	}
	return err
}
