package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/engine"
)

// RegexpMongoDBQueueOptions are options for the queues of a group whose names match an
// expression.
type RegexpMongoDBQueueOptions struct {
	// Regexp may match any part of the name. It must not be empty.
	Regexp  regexp.Regexp
	Options MongoDBQueueOptions
}

// MongoDBQueueGroupOptions configure a group of queues in one MongoDB collection.
type MongoDBQueueGroupOptions struct {
	// DefaultQueue configures the queues, unless more specific options override it. Its
	// DB.Client or URI, DB and Collection are those of the whole group.
	DefaultQueue MongoDBQueueOptions
	// RegexpQueue and PerQueue override options for some queues. The options of a queue
	// are merged field by field, including the fields of DB; a field that is set replaces
	// the earlier value. The order is: DefaultQueue, each matching expression of
	// RegexpQueue, PerQueue for the name, and the options of the call of Get, which must
	// be *MongoDBQueueOptions. NumWorkers also replaces an earlier WorkerPoolSize. A bool
	// of DB can be turned on, but not off. DB.Client, URI and DB must be those of the
	// group, or not set. DB.Collection, UseGroups and GroupName are ignored.
	//
	// Queues with different values of LockTimeout, WaitInterval, CheckWaitUntil,
	// CheckDispatchBy, SampleSize, PreferredIndexes or
	// Retryable.StaleRetryingMonitorInterval claim jobs and renew leases separately. Each
	// set of values has a change stream, and its own connections if URI is set.
	RegexpQueue []RegexpMongoDBQueueOptions
	PerQueue    map[string]MongoDBQueueOptions
	// TTL is how long a queue without work stays open, counted from its last use. Closing
	// it leaves its jobs in the store. It must be at least one second, or 0 (the default)
	// for ever. TTL and PruneFrequency must both be set, or neither.
	TTL time.Duration
	// PruneFrequency is how often the group closes queues whose TTL is over.
	PruneFrequency time.Duration
	// BackgroundCreateFrequency is how often the group opens the queues that are not open
	// in this process and have jobs in the store that can run. It also does so when it is
	// made and when a job becomes due. Default: 0, which means never; a queue with jobs
	// then stays open.
	BackgroundCreateFrequency time.Duration
}

func invalidMongoDBGroup(format string, args ...any) error {
	return fmt.Errorf("invalid MongoDB group options: "+format, args...)
}

// validate sets the defaults. It returns an error that names every field that is missing
// or out of range.
func (o *MongoDBQueueGroupOptions) validate() error {
	errs := []error{o.validateTimes()}
	defaults := &o.DefaultQueue
	if defaults.DB == nil {
		return errors.Join(append(errs, invalidMongoDBGroup("DefaultQueue: DB must be set"))...)
	}
	defaults.DB.UseGroups = true
	if err := errors.Join(defaults.DB.validateStore(), defaults.validateChange(*defaults.DB)); err != nil {
		errs = append(errs, invalidMongoDBGroup("DefaultQueue: %w", err))
	}
	for i, p := range o.RegexpQueue {
		if p.Regexp.String() == "" {
			errs = append(errs, invalidMongoDBGroup("RegexpQueue[%d]: Regexp must not be empty", i))
		}
		if err := p.Options.validateChange(*defaults.DB); err != nil {
			errs = append(errs, invalidMongoDBGroup("RegexpQueue[%d]: %w", i, err))
		}
	}
	for name, opts := range o.PerQueue {
		if name == "" {
			errs = append(errs, invalidMongoDBGroup("PerQueue: a name must not be empty"))
		}
		if err := opts.validateChange(*defaults.DB); err != nil {
			errs = append(errs, invalidMongoDBGroup("PerQueue[%q]: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (o *MongoDBQueueGroupOptions) validateTimes() error {
	var errs []error
	if o.TTL != 0 && o.TTL < minGroupTTL {
		errs = append(errs, invalidMongoDBGroup("TTL must be 0 or at least %s (is %s)", minGroupTTL, o.TTL))
	}
	if o.PruneFrequency < 0 {
		errs = append(errs, invalidMongoDBGroup("PruneFrequency must not be negative (is %s)", o.PruneFrequency))
	}
	if (o.TTL == 0) != (o.PruneFrequency == 0) {
		errs = append(errs, invalidMongoDBGroup("TTL and PruneFrequency must both be set, or neither (are %s and %s)", o.TTL, o.PruneFrequency))
	}
	if o.BackgroundCreateFrequency < 0 {
		errs = append(errs, invalidMongoDBGroup("BackgroundCreateFrequency must not be negative (is %s)", o.BackgroundCreateFrequency))
	}
	return errors.Join(errs...)
}

// validateChange returns an error if options that override those of a group are not
// valid. Any field may be left unset.
func (o MongoDBQueueOptions) validateChange(group MongoDBOptions) error {
	errs := []error{o.validateWorkers()}
	if o.DB != nil {
		errs = append(errs, o.DB.validateChange(group))
	}
	if o.Retryable != nil {
		errs = append(errs, new(*o.Retryable).Validate())
	}
	return errors.Join(errs...)
}

// with returns the options, overridden by the fields that are set in change.
func (o MongoDBQueueOptions) with(change MongoDBQueueOptions) MongoDBQueueOptions {
	if change.DB != nil {
		o.DB = new(o.DB.with(*change.DB))
	}
	if change.NumWorkers != nil {
		o.NumWorkers, o.WorkerPoolSize = change.NumWorkers, nil
	}
	if change.WorkerPoolSize != nil {
		o.WorkerPoolSize = change.WorkerPoolSize
	}
	if change.Abortable != nil {
		o.Abortable = change.Abortable
	}
	if len(change.Middleware) > 0 {
		o.Middleware = change.Middleware
	}
	if change.Retryable != nil {
		o.Retryable = change.Retryable
	}
	return o
}

// longestLock returns the longest LockTimeout in the options of a group. A process with
// the legacy library may lock a job of any queue for that long.
func (o *MongoDBQueueGroupOptions) longestLock() time.Duration {
	longest := o.DefaultQueue.DB.LockTimeout
	consider := func(opts MongoDBQueueOptions) {
		if opts.DB != nil {
			longest = max(longest, opts.DB.LockTimeout)
		}
	}
	for _, p := range o.RegexpQueue {
		consider(p.Options)
	}
	for _, opts := range o.PerQueue {
		consider(opts)
	}
	return longest
}

// NewMongoDBSingleQueueGroup returns a group of queues in one MongoDB collection, one
// queue per name. It is a group like those of NewDriverGroup: the queues claim jobs,
// renew leases and maintain their store together, so a thousand idle queues cost the
// server as much as one. When ctx ends, the group and all of its queues close, and its
// connections are closed, as at Close with an ended context; a call of Close then waits
// for that.
//
// NewMongoDBSingleQueueGroup blocks until it has connected and has found or built the
// indexes, or until ctx ends. It returns an error if the options are not valid, if no
// server answers, or if the indexes can't be built.
func NewMongoDBSingleQueueGroup(ctx context.Context, opts MongoDBQueueGroupOptions) (amboy.QueueGroup, error) {
	opts.DefaultQueue = opts.DefaultQueue.copied()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("making a MongoDB group: %w", err)
	}
	g := &mongoDBGroup{opts: opts, longestLock: opts.longestLock()}
	first, err := g.engineFor(ctx, opts.DefaultQueue)
	if err != nil {
		return nil, fmt.Errorf("making a MongoDB group: %w", err)
	}
	times := groupTimes{ttl: opts.TTL, prune: opts.PruneFrequency, create: opts.BackgroundCreateFrequency}
	g.driverGroup = newDriverGroup(ctx, first, times, g.merge, g.engines.close, groupHooks{})
	return g, nil
}

// mongoDBGroup is a group of queues in one MongoDB collection.
type mongoDBGroup struct {
	*driverGroup
	opts        MongoDBQueueGroupOptions
	longestLock time.Duration
	engines     mongoDBEngines
}

// merge returns a builder with the merged options of a queue; see
// MongoDBQueueGroupOptions.PerQueue.
func (g *mongoDBGroup) merge(name string, call []amboy.QueueOptions) (queueBuilder, error) {
	merged := g.opts.DefaultQueue
	for _, p := range g.opts.RegexpQueue {
		if p.Regexp.MatchString(name) {
			merged = merged.with(p.Options)
		}
	}
	merged = merged.with(g.opts.PerQueue[name])
	for _, opt := range call {
		change, ok := opt.(*MongoDBQueueOptions)
		if !ok || change == nil {
			return nil, fmt.Errorf("options must be a *queue.MongoDBQueueOptions that is not nil (is %T)", opt)
		}
		if err := change.validateChange(*g.opts.DefaultQueue.DB); err != nil {
			return nil, err
		}
		merged = merged.with(*change)
	}
	merged = merged.copied()
	merged.DB.GroupName = name
	if err := merged.Validate(); err != nil {
		return nil, err
	}
	opts, err := merged.driverOptions(name)
	if err != nil {
		return nil, err
	}
	opts.Name = name
	return func(ctx context.Context) (amboy.Queue, error) { return g.build(ctx, merged, opts) }, nil
}

// build makes a queue on the engine with the queue's options.
func (g *mongoDBGroup) build(ctx context.Context, merged MongoDBQueueOptions, opts DriverQueueOptions) (amboy.Queue, error) {
	e, err := g.engineFor(ctx, merged)
	if err != nil {
		return nil, err
	}
	opts.Driver = e.Driver
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return engine.NewQueue(e, e.ID+"."+opts.Name, opts.ofQueue())
}

// engineFor returns the engine for a queue. o must be valid.
func (g *mongoDBGroup) engineFor(ctx context.Context, o MongoDBQueueOptions) (*engine.Engine, error) {
	opts := mongoDBEngineOptions{
		store:       o.DB.storeOptions(),
		lockTimeout: o.DB.LockTimeout,
		retryScan:   defaultMonitorInterval,
	}
	opts.store.LockTimeout = max(g.longestLock, opts.lockTimeout)
	if o.Retryable != nil {
		replace(&opts.retryScan, o.Retryable.StaleRetryingMonitorInterval)
	}
	return g.engines.get(ctx, opts)
}
