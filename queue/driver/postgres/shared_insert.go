package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

const (
	// sharedAtOnce is the maximum number of shared transactions of a queue that are under way. The
	// second begins while the first is committed.
	sharedAtOnce = 2
	// sharedPatience is how long a call waits for its turn before it inserts its record alone. It is
	// longer than a slow commit takes; connections that are stuck keep no other call waiting for
	// longer. A call that waits for a lock, for instance for an open transaction that puts a job with
	// the same ID, keeps the calls that share its transaction waiting for 100 ms (see beginShared), and
	// then waits alone.
	sharedPatience = 500 * time.Millisecond
	// sharedBytes is the maximum size of the bodies of a shared transaction, so that small records
	// do not wait for large ones. A larger body goes alone.
	sharedBytes = 1 << 20
)

// sharedInserts makes concurrent calls that insert one plain record each into the same queue share
// transactions, so that one commit serves many. A call waits for others only while sharedAtOnce
// transactions of its queue are under way.
type sharedInserts struct {
	d *Driver

	mu     sync.Mutex
	queues map[int32]*queueInserts
}

// queueInserts is the shared transactions of a queue. It exists while some are under way.
type queueInserts struct {
	writers int
	waiting []*insertGroup
}

// insertGroup is the records of a shared transaction. Its members are added and removed under the
// lock of sharedInserts until it has begun.
type insertGroup struct {
	members  []*newRecord
	bytes    int
	hasBegun bool
	begun    chan struct{}
	// ctx is canceled when all calls have left the group.
	ctx    context.Context
	cancel context.CancelFunc
	calls  int

	done chan struct{}
	err  error // set when done is closed
}

func newSharedInserts(d *Driver) *sharedInserts {
	return &sharedInserts{d: d, queues: map[int32]*queueInserts{}}
}

// insert inserts a plain record, in a call of the driver that is under way.
func (s *sharedInserts) insert(ctx context.Context, n *newRecord) error {
	g := s.join(n)
	select {
	case <-g.begun: // mostly at once, without a timer
	default:
		timer := time.NewTimer(sharedPatience)
		defer timer.Stop()
		select {
		case <-g.begun:
		case <-timer.C:
			if s.withdraw(g, n) {
				return s.d.insertOwn(ctx, []*newRecord{n})
			}
		case <-ctx.Done():
			if s.withdraw(g, n) {
				return ctx.Err()
			}
		}
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		if !s.leave(g) {
			return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, ctx.Err())
		}
		<-g.done // It was canceled.
	}
	return s.outcome(ctx, g, n)
}

// outcome returns the error of a call whose group is done.
func (s *sharedInserts) outcome(ctx context.Context, g *insertGroup, n *newRecord) error {
	switch {
	case g.err == nil:
		return s.d.explainOwn(ctx, []*newRecord{n})
	case ctx.Err() != nil && errors.Is(g.err, driver.ErrOutcomeUnknown):
		return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, ctx.Err())
	case ctx.Err() != nil:
		return ctx.Err()
	case pgconnect.IsRefused(g.err) && (len(g.members) > 1 || pgconnect.CodeOf(g.err) == pgconnect.CodeLockNotAvailable):
		return s.d.insertOwn(ctx, []*newRecord{n}) // Another record may be the cause.
	default:
		return g.err
	}
}

// join adds a record to a group, and begins that unless enough transactions are under way.
func (s *sharedInserts) join(n *newRecord) *insertGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[n.queue]
	if q == nil {
		q = &queueInserts{}
		s.queues[n.queue] = q
	}
	g := q.groupFor(n)
	g.members = append(g.members, n)
	g.bytes += len(n.Body)
	g.calls++
	if q.writers < sharedAtOnce {
		q.writers++
		s.d.calls.fork()
		go s.write(n.queue, q.begin())
	}
	return g
}

// groupFor returns the last group, or a new one if that has no room for a record.
func (q *queueInserts) groupFor(n *newRecord) *insertGroup {
	if len(q.waiting) > 0 {
		last := q.waiting[len(q.waiting)-1]
		if len(last.members) < insertAtOnce && last.bytes+len(n.Body) <= sharedBytes {
			return last
		}
	}
	g := &insertGroup{begun: make(chan struct{}), done: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	q.waiting = append(q.waiting, g)
	return g
}

// begin takes the first group; nil if none waits.
func (q *queueInserts) begin() *insertGroup {
	for len(q.waiting) > 0 {
		g := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		if len(g.members) > 0 {
			g.hasBegun = true
			close(g.begun)
			return g
		}
		g.cancel() // All calls have withdrawn.
	}
	return nil
}

// write inserts a group, and all that wait then.
func (s *sharedInserts) write(queue int32, g *insertGroup) {
	defer s.d.calls.leave()
	for ; g != nil; g = s.next(queue) {
		// Transactions that insert records with the same IDs in one order do not block each other
		// for good.
		slices.SortFunc(g.members, func(a, b *newRecord) int { return strings.Compare(a.ID, b.ID) })
		g.err = s.insertGroup(g)
		g.cancel()
		if g.err == nil { // A call may have left.
			s.d.noteWritten(momentsOf(g.members...))
		}
		close(g.done)
	}
}

// insertGroup inserts a group. If no notification was sent in the last milliseconds, it notifies other processes in
// the same round trip; another one would begin only after the answer, on another connection.
func (s *sharedInserts) insertGroup(g *insertGroup) error {
	return s.d.retrying(g.ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		news, isAnnounced := "", false
		if momentsOf(g.members...).isEmpty() { // others are to be announced with their times
			news, isAnnounced = s.d.signals.takeTurn()
		}
		mayBeDone, err = s.d.insertPlain(ctx, beginShared, s.d.lockKey(lockOfInserts, g.members[0].queue), g.members, news)
		for _, n := range g.members {
			n.isAnnounced = isAnnounced && err == nil && n.isAdded
		}
		return mayBeDone, err
	})
}

// next begins the next group of a queue; nil if none waits.
func (s *sharedInserts) next(queue int32) *insertGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[queue]
	g := q.begin()
	if g == nil {
		q.writers--
		if q.writers == 0 {
			delete(s.queues, queue)
		}
	}
	return g
}

// withdraw removes a record from a group, unless that has begun.
func (s *sharedInserts) withdraw(g *insertGroup, n *newRecord) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.hasBegun {
		return false
	}
	g.members = slices.DeleteFunc(g.members, func(m *newRecord) bool { return m == n })
	g.bytes -= len(n.Body)
	g.calls--
	return true
}

// leave records that a call does not wait for its group any more. It cancels the group and returns
// true if no call does.
func (s *sharedInserts) leave(g *insertGroup) (canceled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.calls--
	if g.calls > 0 {
		return false
	}
	g.cancel()
	return true
}
