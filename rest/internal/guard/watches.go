package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy/management"
)

// MaxWatchers is the maximum number of requests that watch at once.
const MaxWatchers = 1000

// MaxWatchersOfClient is the maximum number of them per client.
const MaxWatchersOfClient = 100

// ErrTooManyOfClient reports that MaxWatchersOfClient requests of a client already watch.
var ErrTooManyOfClient = errors.New("too many requests of this client are watching the queues")

// ErrTooManyWatchers reports that MaxWatchers requests already watch.
var ErrTooManyWatchers = errors.New("too many requests are watching the queues")

// watches shares one Watch among all requests that watch at about the same rate, so that
// many cost as little as a few.
type watches struct {
	inspector management.Inspector

	mu       sync.Mutex
	watchers int
	// byClient counts the watchers of each client.
	byClient map[string]int
	byRate   map[time.Duration]*watch

	lives Lives
}

// watch yields as Inspector.Watch does, until ctx ends or the server of the request shuts
// down. client identifies the client that sent the request.
func (w *watches) watch(ctx context.Context, r *http.Request, client string, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		if err := checkRate(every); err != nil {
			yield(nil, err)
			return
		}
		every = rateFor(every)
		shared, err := w.join(client, every) //nolint:contextcheck // It may outlive this request.
		if err != nil {
			yield(nil, err)
			return
		}
		defer w.leave(client, every, shared)
		stopping := w.stoppingOf(r)
		for seen := 0; ; {
			now := shared.latest()
			switch {
			case ctx.Err() != nil:
				return
			case now.ended:
				if now.err != nil {
					yield(nil, now.err)
				}
				return
			case now.version > seen:
				seen = now.version
				if !yield(now.queues, nil) {
					return
				}
			}
			select {
			case <-now.changed:
			case <-ctx.Done():
			case <-stopping:
				return
			}
		}
	}
}

func checkRate(every time.Duration) error {
	if every < management.MinWatch || every > management.MaxWatch {
		return &management.InvalidArgumentError{
			Field: "every", Value: every.String(), Rule: fmt.Sprintf("must be from %s to %s", management.MinWatch, management.MaxWatch),
		}
	}
	return nil
}

// rates are the rates at which watches run. They are few: with one watch for each requested
// rate, clients could make the store answer any number of queries.
var rates = []time.Duration{
	management.MinWatch, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, management.MaxWatch,
}

// rateFor returns the first rate that is not faster than the requested one.
func rateFor(every time.Duration) time.Duration {
	i, _ := slices.BinarySearch(rates, every)
	return rates[i]
}

// join returns the watch with a rate, and starts it if necessary.
func (w *watches) join(client string, every time.Duration) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers >= MaxWatchers {
		return nil, ErrTooManyWatchers
	}
	if w.byClient[client] >= MaxWatchersOfClient {
		return nil, ErrTooManyOfClient
	}
	w.watchers++
	if w.byClient == nil {
		w.byClient = map[string]int{}
	}
	w.byClient[client]++
	shared, there := w.byRate[every]
	if !there || shared.latest().ended {
		shared = startWatch(w.inspector, every)
		if w.byRate == nil {
			w.byRate = map[time.Duration]*watch{}
		}
		w.byRate[every] = shared
	}
	shared.watchers++
	return shared, nil
}

// leave stops a watch after its last watcher has left, and waits until it has stopped.
func (w *watches) leave(client string, every time.Duration, shared *watch) {
	w.mu.Lock()
	w.watchers--
	w.byClient[client]--
	if w.byClient[client] == 0 {
		delete(w.byClient, client)
	}
	shared.watchers--
	last := shared.watchers == 0
	if last && w.byRate[every] == shared {
		delete(w.byRate, every)
	}
	w.mu.Unlock()
	if last {
		shared.stop()
	}
}

// stoppingOf returns a channel that is closed when the server of a request shuts down.
func (w *watches) stoppingOf(r *http.Request) <-chan struct{} { return w.lives.Of(r).Done() }

// watch is a Watch that several requests share.
type watch struct {
	watchers int // guarded by watches.mu
	cancel   context.CancelFunc
	done     chan struct{}

	mu  sync.Mutex
	now moment
}

// moment is the state of a watch at a point in time.
type moment struct {
	queues  []management.Queue
	version int
	// ended is true if no more changes follow. err is the reason; nil if it was stopped.
	ended bool
	err   error
	// changed is closed when the next state is set.
	changed chan struct{}
}

// startWatch starts a watch, which runs until stop.
func startWatch(inspector management.Inspector, every time.Duration) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel, done: make(chan struct{}), now: moment{changed: make(chan struct{})}}
	go w.run(ctx, inspector, every)
	return w
}

func (w *watch) stop() {
	w.cancel()
	<-w.done
}

func (w *watch) latest() moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// set changes the latest state, and wakes the waiters.
func (w *watch) set(change func(now *moment)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.now)
	close(w.now.changed)
	w.now.changed = make(chan struct{})
}

func (w *watch) run(ctx context.Context, inspector management.Inspector, every time.Duration) {
	defer close(w.done)
	err := w.follow(ctx, inspector, every)
	w.set(func(now *moment) { now.ended, now.err = true, err })
}

func (w *watch) follow(ctx context.Context, inspector management.Inspector, every time.Duration) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("watching the queues panicked: %v\n%s", value, debug.Stack())
		}
	}()
	for queues, failed := range inspector.Watch(ctx, every) {
		if failed != nil {
			return failed
		}
		w.set(func(now *moment) { now.queues, now.version = queues, now.version+1 })
	}
	return nil
}
