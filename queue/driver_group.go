package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

var _ amboy.QueueOptions = (*DriverQueueOptions)(nil)

// BuildQueue is NewDriverQueue for a queue that is closed when ctx ends before it is
// started; then only the context of Start counts. It returns an error if ctx has ended
// already.
func (o *DriverQueueOptions) BuildQueue(ctx context.Context) (amboy.Queue, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("making a driver queue: %w", err)
	}
	q, err := newQueueWithEngine(*o)
	if err != nil {
		return nil, err
	}
	q.madeWith(ctx)
	return q, nil
}

// DriverQueuePattern has options for the queues of a group whose names match.
type DriverQueuePattern struct {
	// Regexp is matched against any part of the name. It is required.
	Regexp  *regexp.Regexp
	Options DriverQueueOptions
}

// DriverGroupOptions configure a group of queues in one store.
type DriverGroupOptions struct {
	// DefaultQueue tells how a queue is made where nothing else says otherwise,
	// and has the options that concern the store, which all queues share: Driver,
	// CloseDriver, Format, LockTimeout, PollInterval and
	// Retryable.StaleRetryingMonitorInterval. Its Name must be empty.
	DefaultQueue DriverQueueOptions
	// Patterns and PerQueue have what is different for some queues. The options
	// of a queue are merged, field by field, where one that is set takes the
	// place of the one before: first the default, then each pattern that matches,
	// in their order, then what PerQueue has for the name, then the options of
	// the call of Get, which must be *DriverQueueOptions. They must not set what
	// concerns the store, nor Name.
	Patterns []DriverQueuePattern
	PerQueue map[string]DriverQueueOptions
	// Workers is the number of jobs that run at once in this process, over all
	// queues of the group. A worker that becomes free goes to the queue of which
	// the fewest jobs run here, and among those to the one that was served least
	// lately, so that a queue with many jobs does not keep the others waiting.
	// NumWorkers is the most that one queue can have of them. Default: 0, for no
	// limit but NumWorkers.
	Workers int
	// TTL is how long a queue without work stays open, counted from its last use.
	// It is at least a second, or 0, the default, for ever. What it has in the
	// store stays all the same.
	TTL time.Duration
	// PruneFrequency is how often the group looks for queues to close. Default:
	// the TTL.
	PruneFrequency time.Duration
	// BackgroundCreateFrequency is how often the group looks for queues that have jobs in
	// the store which can run, and are not open here, and opens them; it does so when it
	// is made and when a job is due, too. Default: ten seconds. NoBackgroundCreate turns it
	// off, and then a queue with jobs stays open.
	BackgroundCreateFrequency time.Duration
}

// NoBackgroundCreate is the BackgroundCreateFrequency that leaves queues with work
// closed until Get is called for them.
const NoBackgroundCreate time.Duration = -1

const defaultBackgroundCreate = 10 * time.Second

// Validate sets the defaults. It returns an error that names every field that is
// missing or out of range.
func (o *DriverGroupOptions) Validate() error {
	var errs []error
	invalid := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("invalid driver group options: "+format, args...))
	}
	if err := o.DefaultQueue.Validate(); err != nil {
		invalid("DefaultQueue: %w", err)
	}
	if o.DefaultQueue.Name != "" {
		invalid("DefaultQueue: Name must be empty (is %q)", o.DefaultQueue.Name)
	}
	for i, p := range o.Patterns {
		if p.Regexp == nil {
			invalid("Patterns[%d]: Regexp must not be nil", i)
		}
		if err := p.Options.validateChange(); err != nil {
			invalid("Patterns[%d]: %w", i, err)
		}
	}
	for name, opts := range o.PerQueue {
		if err := opts.validateChange(); err != nil {
			invalid("PerQueue[%q]: %w", name, err)
		}
	}
	if o.Workers < 0 {
		invalid("Workers must not be negative (is %d)", o.Workers)
	}
	if o.TTL < 0 || (o.TTL > 0 && o.TTL < minGroupTTL) {
		invalid("TTL must be 0 or at least %s (is %s)", minGroupTTL, o.TTL)
	}
	if o.PruneFrequency < 0 || (o.PruneFrequency > 0 && o.TTL == 0) {
		invalid("PruneFrequency must be 0, or positive where there is a TTL (is %s)", o.PruneFrequency)
	}
	if o.BackgroundCreateFrequency < 0 && o.BackgroundCreateFrequency != NoBackgroundCreate {
		invalid("BackgroundCreateFrequency must be positive, 0 or NoBackgroundCreate (is %s)", o.BackgroundCreateFrequency)
	}
	if o.PruneFrequency == 0 {
		o.PruneFrequency = o.TTL
	}
	if o.BackgroundCreateFrequency == 0 {
		o.BackgroundCreateFrequency = defaultBackgroundCreate
	}
	return errors.Join(errs...)
}

// validateChange returns an error where options that change the default set what
// concerns the store, or what is not valid.
func (o DriverQueueOptions) validateChange() error {
	if o.Driver != nil || o.CloseDriver || o.Name != "" || o.Format != 0 || o.LockTimeout != 0 || o.PollInterval != 0 ||
		o.Retryable.StaleRetryingMonitorInterval != 0 {
		return errors.New("options of the store are those of the group, and must not be set: " +
			"Driver, CloseDriver, Name, Format, LockTimeout, PollInterval and StaleRetryingMonitorInterval")
	}
	if o.NumWorkers < 0 || o.MaxRunning < 0 {
		return fmt.Errorf("NumWorkers and MaxRunning must not be negative (are %d and %d)", o.NumWorkers, o.MaxRunning)
	}
	return errors.Join(o.Retention.Validate(), o.Retryable.Validate())
}

// with returns the options with the fields that are set in a change.
func (o DriverQueueOptions) with(change DriverQueueOptions) DriverQueueOptions {
	if change.NumWorkers != 0 {
		o.NumWorkers = change.NumWorkers
	}
	if change.NewRunner != nil {
		o.NewRunner = change.NewRunner
	}
	if change.MaxRunning != 0 {
		o.MaxRunning = change.MaxRunning
	}
	if change.Retention != (Retention{}) {
		o.Retention = change.Retention
	}
	if change.Retryable.isSet() {
		o.Retryable = change.Retryable
	}
	if len(change.Middleware) > 0 {
		o.Middleware = change.Middleware
	}
	return o
}

// driverGroup is a group of queues in one store.
type driverGroup struct {
	*queueGroup
	engine *engine
	// retention and format are those of a queue that is not open.
	retention Retention
	format    amboy.Format
}

// NewDriverGroup makes a group of queues in one store, one for each name. They
// claim jobs in common, and their leases and their store are looked after in
// common, so that a thousand idle queues cost the store what one does. When ctx ends,
// the group and all of its queues end, as at Close with an ended context; Close then
// waits for that. The contexts of calls of Get do not count.
//
// Get opens a queue, starts it, and blocks until it is started; the queue is an
// amboy.RetryableQueue. A queue with jobs that can run is never pruned, and one that is not
// open is opened (see BackgroundCreateFrequency), whichever process put them, so that a
// process that starts goes on with what was left. A queue whose jobs all wait, for their
// time for instance, may be pruned, unless a caller waits for them. Its jobs may run before a
// call of Get returns, and must not rely on what the caller does then. Queues names those that
// are open here, and those that have work in the store, or had some within the
// TTL. Put adds a queue as it is, which does not have to be in the store, and the group
// closes it. Once closed, the group's methods return an error that wraps ErrGroupClosed;
// closing it again only waits. NewDriverGroup returns an error for options that are not
// valid, and if ctx has ended already.
func NewDriverGroup(ctx context.Context, opts DriverGroupOptions) (amboy.QueueGroup, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a driver group: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("making a driver group: %w", err)
	}
	e := newEngine(opts.DefaultQueue, opts.Workers)
	merge := func(name string, call []amboy.QueueOptions) (queueBuilder, error) { return opts.merge(e, name, call) }
	times := groupTimes{ttl: opts.TTL, prune: opts.PruneFrequency, create: max(opts.BackgroundCreateFrequency, 0)}
	g := newDriverGroup(ctx, e, times, merge, e.close)
	g.retention, g.format = opts.DefaultQueue.Retention, opts.DefaultQueue.Format
	return g, nil
}

// groupTimes are the times of a group. ttl and create may be 0, for never.
type groupTimes struct{ ttl, prune, create time.Duration }

// newDriverGroup makes a group whose queues are made by what merge returns. closeShared
// closes what they share, after them.
func newDriverGroup(ctx context.Context, e *engine, times groupTimes, merge func(string, []amboy.QueueOptions) (queueBuilder, error), closeShared func(late context.Context) leftover) *driverGroup {
	g := &driverGroup{engine: e, queueGroup: newQueueGroup(ctx, "driver", times.ttl, merge)}
	g.closeShared = closeShared
	if times.create > 0 {
		g.prune = g.pruneUnused
		e.openWithWork(times.create, g.openQueues)
	}
	g.begin(ctx, times.prune)
	return g
}

// merge makes the options of a queue, as DriverGroupOptions.PerQueue says.
func (o DriverGroupOptions) merge(e *engine, name string, call []amboy.QueueOptions) (queueBuilder, error) {
	merged := o.DefaultQueue
	for _, p := range o.Patterns {
		if p.Regexp.MatchString(name) {
			merged = merged.with(p.Options)
		}
	}
	merged = merged.with(o.PerQueue[name])
	for _, opt := range call {
		change, ok := opt.(*DriverQueueOptions)
		if !ok || change == nil {
			return nil, fmt.Errorf("options must be a *queue.DriverQueueOptions that is not nil (is %T)", opt)
		}
		if err := change.validateChange(); err != nil {
			return nil, err
		}
		merged = merged.with(*change)
	}
	merged.Name = name
	if err := merged.Validate(); err != nil {
		return nil, err
	}
	return func(context.Context) (amboy.Queue, error) {
		return newDriverQueue(e, e.id+"."+name, merged)
	}, nil
}

// Queues names, sorted, the queues that are open here, and those that have work in
// the store, or had some within the TTL.
func (g *driverGroup) Queues(ctx context.Context) []string {
	names := map[string]struct{}{}
	for _, name := range g.queueGroup.Queues(ctx) {
		names[name] = struct{}{}
	}
	stored, err := g.stored(ctx)
	if err != nil {
		logging.Error(ctx, g.engine.failure("could not list the queues of a store", err))
	}
	for _, name := range stored {
		names[name] = struct{}{}
	}
	delete(names, "") // a group has none without a name
	return slices.Sorted(maps.Keys(names))
}

// stored names the queues that have work in the store, or had some within the
// TTL.
func (g *driverGroup) stored(ctx context.Context) ([]string, error) {
	names, err := g.engine.driver.Unfinished(ctx)
	if err != nil || g.ttl == 0 {
		return names, err
	}
	all, err := g.engine.driver.Queues(ctx)
	for _, q := range all {
		if q.Stats.IsIdle() && g.hadWork(ctx, q.Name) {
			names = append(names, q.Name)
		}
	}
	return names, err
}

// hadWork tells whether a job of a queue ended within the TTL.
func (g *driverGroup) hadWork(ctx context.Context, name string) bool {
	query := driver.Query{Queues: []string{name}, Ended: driver.TimeRange{From: time.Now().Add(-g.ttl)}}
	n, err := g.engine.driver.Count(ctx, query, 1)
	if err != nil {
		logging.Error(ctx, g.engine.failure("could not look for finished jobs", err))
	}
	return n > 0
}

// pruneUnused prunes queues that have no work, with one call of the store. What waits for its
// time, or for something else, is no work: the queue is opened again when it can run.
func (g *driverGroup) pruneUnused(ctx context.Context) error {
	return g.cache.(*groupCache).pruneUnused(ctx, func(ctx context.Context) (map[string]bool, error) {
		ctx, cancel := context.WithTimeout(ctx, driverTimeout)
		defer cancel()
		var work driver.Work
		err := errorOfPanic(func() (err error) {
			work, err = g.engine.driver.Work(ctx, time.Now())
			return err
		})
		busy := make(map[string]bool, len(work.Queues))
		for _, w := range work.Queues {
			busy[w.Queue] = true
		}
		return busy, err
	})
}

// openQueues opens queues that have work.
func (g *driverGroup) openQueues(names []string) {
	for _, name := range names {
		if name == "" || g.cache.(*groupCache).has(name) {
			continue // a group has none without a name
		}
		if _, err := g.Get(g.background, name); err != nil && g.background.Err() == nil {
			logging.Error(g.background, message.Fields{
				"message": "could not open a queue that has work",
				"queue":   name,
				"error":   err.Error(),
			})
		}
	}
}
