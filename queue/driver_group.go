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
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

var _ amboy.QueueOptions = (*DriverQueueOptions)(nil)

// BuildQueue is NewDriverQueue for a queue that also closes when ctx ends before it is
// started; after Start, only the context of Start counts. It returns an error if ctx has
// ended.
func (o *DriverQueueOptions) BuildQueue(ctx context.Context) (amboy.Queue, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("making a driver queue: %w", err)
	}
	q, err := newQueueWithEngine(*o)
	if err != nil {
		return nil, err
	}
	q.MadeWith(ctx)
	return q, nil
}

// DriverQueuePattern is options for the queues of a group whose names match an
// expression.
type DriverQueuePattern struct {
	// Regexp may match any part of the name. It is required.
	Regexp  *regexp.Regexp
	Options DriverQueueOptions
}

// DriverGroupOptions configure a group of queues in one store.
type DriverGroupOptions struct {
	// DefaultQueue configures the queues, unless more specific options override it. It
	// also sets the options of the store, which all queues share: Driver, CloseDriver,
	// Format, Codec, LockTimeout, PollInterval and Retryable.StaleRetryingMonitorInterval. Its
	// Name must be empty.
	DefaultQueue DriverQueueOptions
	// Patterns and PerQueue override options for some queues. The options of a queue are
	// merged field by field; a field that is set replaces the earlier value. The order
	// is: DefaultQueue, each matching pattern, PerQueue for the name, and the options of
	// the call of Get, which must be *DriverQueueOptions. They must set neither options
	// of the store nor Name.
	Patterns []DriverQueuePattern
	PerQueue map[string]DriverQueueOptions
	// MiddlewareFor returns middleware for the queue with that name, which is placed around
	// the Middleware of its options. It is called when the group makes the queue; if it
	// panics, Get returns an error that wraps an *amboy.PanicError. Default: none.
	MiddlewareFor func(name string) []amboy.Middleware
	// OnOpen is called with each queue that the group has opened and started, or that was
	// added by Put, before the call that opened it returns; other calls may use the queue
	// already. OnClose is called after the group has closed the queue. They are for what
	// belongs to a queue, such as its metrics, must return soon, and must not call the group.
	// Calls for different queues may overlap. A panic is logged. Default: none.
	OnOpen  func(name string, q amboy.Queue)
	OnClose func(name string)
	// Workers is the number of jobs that run at once in this process, in all queues of
	// the group. A free worker serves the queue with the fewest jobs running here, and
	// among those the queue that was served least recently, so that a queue with many
	// jobs does not keep the others waiting. NumWorkers is the most workers that one
	// queue can have. Default: 0, so that NumWorkers is the only limit.
	Workers int
	// TTL is how long a queue without work stays open, counted from its last use. Closing
	// it leaves its jobs in the store. When the retention of the last of them is over, and
	// the queue was not used in the store for the TTL either, its name is dropped from the
	// store, with its totals, if the store keeps names (memory and SQLite do). The name of
	// a queue that is paused, drained, limited, or whose number of workers was set stays.
	// TTL must be at least one second, or 0 (the default) for ever.
	TTL time.Duration
	// PruneFrequency is how often the group closes queues whose TTL is over, and drops
	// names. Default: the TTL.
	PruneFrequency time.Duration
	// BackgroundCreateFrequency is how often the group opens the queues that are not open
	// in this process and have jobs in the store that can run. It also does so when it is
	// made and when a job becomes due. Default: ten seconds. NoBackgroundCreate turns it
	// off; a queue with jobs then stays open.
	BackgroundCreateFrequency time.Duration
}

// NoBackgroundCreate is a BackgroundCreateFrequency with which queues with work stay
// closed until Get is called for them.
const NoBackgroundCreate time.Duration = -1

const defaultBackgroundCreate = 10 * time.Second

// Validate sets the defaults. It returns an error that names every field that is missing
// or out of range.
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
		invalid("PruneFrequency must be 0, or positive if TTL is set (is %s)", o.PruneFrequency)
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

// validateChange returns an error if options that override the default set options of the
// store, or are not valid.
func (o DriverQueueOptions) validateChange() error {
	if o.Driver != nil || o.CloseDriver || o.Name != "" || o.Format != 0 || o.Codec != nil || o.LockTimeout != 0 || o.PollInterval != 0 ||
		o.Retryable.StaleRetryingMonitorInterval != 0 {
		return errors.New("options of the store are those of the group, and must not be set: " +
			"Driver, CloseDriver, Name, Format, Codec, LockTimeout, PollInterval and StaleRetryingMonitorInterval")
	}
	if o.NumWorkers < 0 || o.MaxRunning < 0 {
		return fmt.Errorf("NumWorkers and MaxRunning must not be negative (are %d and %d)", o.NumWorkers, o.MaxRunning)
	}
	if o.Rate != nil {
		if err := o.Rate.Validate(); err != nil {
			return err
		}
	}
	return errors.Join(validateTypeLimits(o.TypeLimits), o.Retention.Validate(), o.Retryable.Validate())
}

// with returns the options, overridden by the fields that are set in change.
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
	if change.Rate != nil {
		o.Rate = change.Rate
	}
	if change.TypeLimits != nil {
		o.TypeLimits = change.TypeLimits
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
	engine *engine.Engine
	// retention and form apply to queues that are not open.
	retention Retention
	form      engine.StoredForm
}

// NewDriverGroup returns a group of queues in one store, one queue per name. The queues
// claim jobs, renew leases and maintain their store together, so a thousand idle queues
// cost the store as much as one. When ctx ends, the group and all of its queues close, as
// at Close with an ended context; a call of Close then waits for that. The contexts of
// calls of Get do not end the queues.
//
// Get opens a queue, starts it, and blocks until it is started; the queue is an
// amboy.RetryableQueue. A queue with jobs that can run is never pruned. If it is not open,
// the group opens it (see BackgroundCreateFrequency), whichever process put the jobs, so
// that a starting process continues the work that was left. A queue whose jobs all wait,
// for their time for instance, may be pruned, unless a caller waits for them. The jobs of
// a queue may run before the call of Get returns, and must not rely on what the caller
// does then. Queues returns the names of the queues that are open here, and of the queues
// that have work in the store or had some within the TTL. Put adds a queue as it is, and
// the group closes it; the queue does not have to be in the store. Once the group is
// closed, its methods return an error that wraps ErrGroupClosed; closing it again only
// waits. NewDriverGroup returns an error if the options are not valid or ctx has ended.
func NewDriverGroup(ctx context.Context, opts DriverGroupOptions) (amboy.QueueGroup, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a driver group: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("making a driver group: %w", err)
	}
	e := engine.New(opts.DefaultQueue.ofEngine(opts.Workers))
	merge := func(name string, call []amboy.QueueOptions) (queueBuilder, error) { return opts.merge(e, name, call) }
	times := groupTimes{ttl: opts.TTL, prune: opts.PruneFrequency, create: max(opts.BackgroundCreateFrequency, 0)}
	g := newDriverGroup(ctx, e, times, merge, e.Close, groupHooks{opts.OnOpen, opts.OnClose})
	g.retention, g.form = opts.DefaultQueue.Retention, engine.StoredForm{Format: opts.DefaultQueue.Format, Codec: opts.DefaultQueue.Codec}
	return g, nil
}

// groupTimes are the times of a group. ttl and create may be 0, which means never.
type groupTimes struct{ ttl, prune, create time.Duration }

// newDriverGroup makes a group whose queues are made by the builders that merge returns.
// closeShared closes what the queues share, after them.
func newDriverGroup(ctx context.Context, e *engine.Engine, times groupTimes, merge func(string, []amboy.QueueOptions) (queueBuilder, error), closeShared func(late context.Context) lifecycle.Leftover, hooks groupHooks) *driverGroup {
	g := &driverGroup{engine: e, queueGroup: newQueueGroup(ctx, "driver", times.ttl, merge)}
	g.closeShared = closeShared
	g.use(hooks)
	if times.create > 0 {
		g.prune = g.pruneUnused
		e.OpenWithWork(times.create, g.openQueues)
	}
	closeUnused := g.prune
	g.prune = func(ctx context.Context) error { return errors.Join(closeUnused(ctx), g.pruneNames(ctx)) }
	g.begin(ctx, times.prune)
	return g
}

// merge returns a builder with the merged options of a queue; see
// DriverGroupOptions.PerQueue.
func (o DriverGroupOptions) merge(e *engine.Engine, name string, call []amboy.QueueOptions) (queueBuilder, error) {
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
		opts := merged
		if o.MiddlewareFor != nil {
			err := contain.Panic(func() error {
				opts.Middleware = slices.Concat(o.MiddlewareFor(name), merged.Middleware)
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("making the middleware of the queue: %w", err)
			}
		}
		return engine.NewQueue(e, e.ID+"."+name, opts.ofQueue())
	}, nil
}

// Queues returns the names, sorted, of the queues that are open here, and of the queues
// that have work in the store or had some within the TTL.
func (g *driverGroup) Queues(ctx context.Context) []string {
	names := map[string]struct{}{}
	for _, name := range g.queueGroup.Queues(ctx) {
		names[name] = struct{}{}
	}
	stored, err := g.stored(ctx)
	if err != nil {
		logging.Error(ctx, g.engine.Failure("could not list the queues of a store", err))
	}
	for _, name := range stored {
		names[name] = struct{}{}
	}
	delete(names, "") // a group has no queue without a name
	return slices.Sorted(maps.Keys(names))
}

// stored returns the names of the queues that have work in the store, or had some within
// the TTL.
func (g *driverGroup) stored(ctx context.Context) ([]string, error) {
	names, err := g.engine.Driver.Unfinished(ctx)
	if err != nil || g.ttl == 0 {
		return names, err
	}
	all, err := g.engine.Driver.Queues(ctx, driver.QueueRequest{})
	for _, q := range all {
		if !q.Stats.IsIdle() {
			continue // it is among the names already
		}
		worked, failure := g.workedWithinTTL(ctx, q)
		if worked {
			names = append(names, q.Name)
		}
		err = errors.Join(err, failure)
	}
	return names, err
}

// pruneUnused prunes queues that have no work, with one call of the store. Jobs that wait,
// for their time or for other jobs, are not work: the queue is reopened when they can run.
func (g *driverGroup) pruneUnused(ctx context.Context) error {
	return g.cache.pruneUnused(ctx, func(ctx context.Context) (map[string]bool, error) {
		ctx, cancel := context.WithTimeout(ctx, engine.DriverTimeout)
		defer cancel()
		var work driver.Work
		err := contain.Panic(func() (err error) {
			work, err = g.engine.Driver.Work(ctx, time.Now())
			return err
		})
		busy := make(map[string]bool, len(work.Queues))
		for _, w := range work.Queues {
			busy[w.Queue] = true
		}
		return busy, err
	})
}

// openQueues opens the named queues one after the other, unless they are open or being opened. It
// waits for each for a limited time, so that a slow one does not delay the others for long.
func (g *driverGroup) openQueues(names []string) {
	for _, name := range names {
		if name == "" || g.cache.has(name) || g.isCreating(name) {
			continue // a group has no queue without a name
		}
		ctx, cancel := context.WithTimeout(g.background, engine.DriverTimeout)
		_, err := g.Get(ctx, name)
		cancel()
		if err != nil && g.background.Err() == nil {
			logging.Error(g.background, message.Fields{
				"message": "could not open a queue that has work",
				"queue":   name,
				"error":   err.Error(),
			})
		}
	}
}
