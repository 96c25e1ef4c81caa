package outside

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/mongodb/amboy/internal/aside"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
)

// lines are the workers that wait for jobs. Workers that ask for the same queues and types
// stand in one line. The lock of the Dispatcher guards them.
//
// At most one worker of a line has the turn: it asks the store. The rules:
//
//   - A worker gets the turn when it is the first of its line and there may be a job:
//     because it just came, or a change of the store, a time, or a poll may have brought
//     one, or the last worker with the turn got some.
//   - A change that comes while a worker asks the store gives the turn again after that.
//   - A worker that leaves with the turn passes it on.
//   - A worker whose claim fails goes to the end of its line: its request may be the reason.
//   - After a change that may be in any queue, the store is asked which queues it is about, if
//     there are many lines.
type lines struct {
	d *Dispatcher
	// byDemand holds the lines by what their workers ask for, and byQueue by queue. A line
	// without workers is in neither.
	byDemand map[string]*line
	byQueue  map[string]map[*line]bool
	waiting  int
	// changes counts the changes that may have brought jobs.
	changes uint64
	// vague is true if the store has changed since it was last asked which queues have jobs, and asking
	// is true while it is asked, or about to be.
	vague, asking bool
	// askAgain fires when the time comes that the store named; nil until it has named one.
	askAgain *time.Timer
}

// line is the workers that ask for the same.
type line struct {
	*lines
	demand  string
	queues  []string
	workers []*worker // in the order in which they came
	// mayHave is true if there may be a job.
	mayHave bool
	// turn is the worker that asks the store, or is about to; nil if none does.
	turn  *worker
	timer *time.Timer
	// next is when the timer fires; zero if it is not set.
	next time.Time
}

// worker is a waiting call of Lease.
type worker struct {
	line *line
	req  *LeaseRequest
	// turn has room for one signal.
	turn    chan struct{}
	timeout *time.Timer
	// failure is the error of the last claim; nil if it did not fail.
	failure error
}

func (ls *lines) init(d *Dispatcher) {
	ls.d = d
	ls.byDemand, ls.byQueue = map[string]*line{}, map[string]map[*line]bool{}
}

// demandOf returns a text that is the same for requests that can stand in one line.
func demandOf(req *LeaseRequest) string {
	var room [128]byte
	text := room[:0]
	for _, names := range [][]string{req.Queues, req.Types} {
		text = strconv.AppendInt(text, int64(len(names)), 10)
		for _, name := range names {
			text = strconv.AppendInt(append(text, ' '), int64(len(name)), 10)
			text = append(append(text, ' '), name...)
		}
		text = append(text, ' ')
	}
	return string(text)
}

// begin leases jobs, or returns the worker that is to wait for them.
func (ls *lines) begin(ctx context.Context, req *LeaseRequest) (w *worker, jobs []Job, err error) {
	demand := demandOf(req)
	ls.d.mu.Lock()
	seen, others := ls.changes, ls.byDemand[demand] != nil
	ls.d.mu.Unlock()
	// If the others have left meanwhile, perhaps without having used their turn, the store is asked
	// at once.
	next := time.Now()
	if !others || req.Wait == 0 {
		jobs, next, err = ls.d.claim(ctx, req)
		if err != nil || len(jobs) > 0 || req.Wait == 0 {
			return nil, jobs, err
		}
	}
	w, err = ls.join(req, demand, seen, next)
	return w, nil, err
}

// join adds a worker to its line. seen is the number of changes when the store was last asked, and
// next is when it may have more.
func (ls *lines) join(req *LeaseRequest, demand string, seen uint64, next time.Time) (*worker, error) {
	ls.d.mu.Lock()
	defer ls.d.mu.Unlock()
	if ls.waiting >= ls.d.opts.MaxWaiting {
		return nil, ErrTooManyWaiting
	}
	l := ls.byDemand[demand]
	if l == nil {
		l = &line{lines: ls, demand: demand, queues: req.Queues}
		ls.byDemand[demand] = l
		for _, name := range req.Queues {
			if ls.byQueue[name] == nil {
				ls.byQueue[name] = map[*line]bool{}
			}
			ls.byQueue[name][l] = true
		}
		l.wakeAt(next)
		l.wakeAt(time.Now().Add(ls.poll()))
	}
	ls.waiting++
	ls.d.background.Add(1)
	w := &worker{line: l, req: req, turn: make(chan struct{}, 1), timeout: time.NewTimer(req.Wait)}
	l.workers = append(l.workers, w)
	l.mayHave = l.mayHave || ls.changes != seen
	l.giveTurn()
	return w, nil
}

// wait waits for jobs in line.
func (w *worker) wait(ctx context.Context) ([]Job, error) {
	d := w.line.d
	defer w.end()
	for {
		select {
		case <-w.turn:
			if jobs, isOver, err := w.claim(ctx); isOver {
				return jobs, err
			}
		case <-w.timeout.C:
			w.line.leave(w, false)
			return nil, w.failure
		case <-ctx.Done():
			w.line.leave(w, false)
			return nil, ctx.Err()
		case <-d.open.Done():
			w.line.leave(w, false)
			return nil, ErrClosed
		}
	}
}

func (w *worker) end() {
	w.timeout.Stop()
	w.line.d.background.Done()
}

// claimRetry is the pause after a failed claim, while workers wait.
const claimRetry = time.Second

// claim uses the turn. isOver is true if the worker has left its line, which it also does if code of the user panics
// or ends the goroutine.
func (w *worker) claim(ctx context.Context) (jobs []Job, isOver bool, err error) {
	isOver, err = true, contain.ErrExited
	aside.DoIfSmall(ctx, func() {
		isBroken := true
		defer func() {
			if isBroken {
				w.line.leave(w, true)
			}
		}()
		var next time.Time
		jobs, next, err = w.line.d.claim(ctx, w.req)
		isBroken = false
		if isOver = len(jobs) > 0 || ctx.Err() != nil; isOver {
			w.line.leave(w, true)
			return
		}
		if w.failure = err; err != nil {
			next = time.Now().Add(claimRetry)
		}
		w.line.foundNothing(w, next, err != nil)
	})
	return jobs, isOver, err
}

// leave removes a worker from its line. gotJobs is true if there may be more.
func (l *line) leave(w *worker, gotJobs bool) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.remove(w)
	l.waiting--
	if l.turn == w {
		l.turn = nil
		// A worker that leaves with the turn may not have used it.
		l.mayHave = true
	}
	l.mayHave = l.mayHave || gotJobs
	if len(l.workers) > 0 {
		l.giveTurn()
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	delete(l.byDemand, l.demand)
	for _, name := range l.queues {
		delete(l.byQueue[name], l)
		if len(l.byQueue[name]) == 0 {
			delete(l.byQueue, name)
		}
	}
}

// remove takes a worker out of its line. The caller holds the lock.
func (l *line) remove(w *worker) {
	l.workers = slices.DeleteFunc(l.workers, func(other *worker) bool { return other == w })
}

// foundNothing takes the turn back after the store had nothing, or the claim has failed.
func (l *line) foundNothing(w *worker, next time.Time, hasFailed bool) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.turn = nil
	if hasFailed {
		l.remove(w)
		l.workers = append(l.workers, w)
	}
	l.wakeAt(next)
	l.giveTurn()
}

// giveTurn lets the first worker ask the store, if there may be a job. The caller holds the
// lock.
func (l *line) giveTurn() {
	if !l.mayHave || l.turn != nil || len(l.workers) == 0 {
		return
	}
	l.mayHave = false
	l.turn = l.workers[0]
	l.turn.turn <- struct{}{}
}

// changed is called after each change of the store.
func (ls *lines) changed(change driver.Change) {
	if !change.MayClaim {
		return
	}
	ls.d.mu.Lock()
	defer ls.d.mu.Unlock()
	ls.changes++
	if change.InOneQueue {
		ls.wakeQueue(change.Queue)
		return
	}
	if len(ls.byDemand) > fewLines {
		ls.ask()
		return
	}
	ls.wakeAll()
}

func (ls *lines) wakeAll() {
	for _, l := range ls.byDemand {
		l.mayHave = true
		l.giveTurn()
	}
}

// fewLines is the number of lines that ask the store themselves after a change that may be in any queue.
const fewLines = 8

// minAskPause is the minimum time until the store is asked again because a job becomes due: the job may be in a
// queue for which no worker waits.
const minAskPause = 20 * time.Millisecond

// ask asks the store which queues have jobs, in the background. The caller holds the lock.
func (ls *lines) ask() {
	ls.vague = true
	if ls.asking || ls.d.closed {
		return
	}
	ls.asking = true
	ls.d.background.Go(func() {
		for ls.beginAsking() {
			ctx, cancel := context.WithTimeout(ls.d.open, callLimit)
			now := ls.d.leases.Now()
			work, err := ls.d.leases.Work(ctx, now)
			cancel()
			ls.answered(work, now, err)
		}
	})
}

// beginAsking reports whether the store is to be asked.
func (ls *lines) beginAsking() bool {
	ls.d.mu.Lock()
	defer ls.d.mu.Unlock()
	ls.asking = ls.vague && !ls.d.closed
	ls.vague = false
	return ls.asking
}

// answered lets workers ask for the jobs of the queues that have some.
func (ls *lines) answered(work driver.Work, now time.Time, err error) {
	ls.d.mu.Lock()
	defer ls.d.mu.Unlock()
	if err != nil || !work.Next.IsZero() && !work.Next.After(now) {
		ls.wakeAll() // They get the error, or the jobs of queues that the answer had no room for.
		return
	}
	for _, q := range work.Queues {
		if q.Ready || q.Expired {
			ls.wakeQueue(q.Queue)
		}
	}
	if ls.d.closed || work.Next.IsZero() {
		return
	}
	if ls.askAgain != nil {
		ls.askAgain.Stop()
	}
	ls.askAgain = time.AfterFunc(max(minAskPause, time.Until(work.Next)), func() {
		ls.d.mu.Lock()
		defer ls.d.mu.Unlock()
		ls.ask()
	})
}

func (ls *lines) wakeQueue(name string) {
	for l := range ls.byQueue[name] {
		l.mayHave = true
		l.giveTurn()
	}
}

// The polls of a Dispatcher whose store sends notifications are 30 s apart, ± 50%, because
// notifications may be lost.
const (
	minSafetyPoll = 15 * time.Second
	maxSafetyPoll = 45 * time.Second
)

// poll returns the time until the next poll.
func (ls *lines) poll() time.Duration {
	low, high := minSafetyPoll, maxSafetyPoll
	if !ls.d.leases.Notifies() {
		low, high = ls.d.opts.PollInterval/2, ls.d.opts.PollInterval
	}
	return low + rand.N(high-low+1)
}

// wakeAt makes sure that the store is asked at a time or before; zero for never. The caller
// holds the lock.
func (l *line) wakeAt(at time.Time) {
	if at.IsZero() || !l.next.IsZero() && !at.Before(l.next) {
		return
	}
	l.next = at
	wait := max(0, time.Until(at))
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.timePassed)
	} else {
		l.timer.Reset(wait)
	}
}

func (l *line) timePassed() {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if len(l.workers) == 0 || l.d.closed {
		return
	}
	l.next = time.Time{}
	l.wakeAt(time.Now().Add(l.poll()))
	l.mayHave = true
	l.giveTurn()
}

// close stops the timers. The caller holds the lock.
func (ls *lines) close() {
	if ls.askAgain != nil {
		ls.askAgain.Stop()
	}
	for _, l := range ls.byDemand {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
}
