package outside

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// minTick and maxTick bound the interval at which leases that may have run out are
	// recovered, while workers have leases. It is a quarter of the shortest lease.
	minTick = time.Second
	maxTick = 30 * time.Second
	// forgetAfter is how long a lease that ran out is remembered: a store may take longer to
	// hand back the job.
	forgetAfter = 2 * time.Minute
)

// held remembers the leases of outside workers that this Dispatcher has heard of, in order
// to end attempts whose time to run is over, and to bring the recovery of leases forward.
// Nothing else depends on it: after a restart it learns of leases by their heartbeats, and
// what it missed by then the next lease of the job makes up for. The lock of the Dispatcher
// guards it.
type held struct {
	d      *Dispatcher
	leases map[driver.Lease]*heldLease
	timer  *time.Timer
	// tickAt is when the timer fires; zero if it is not set.
	tickAt time.Time
	// recoverAt is when leases are next recovered.
	recoverAt time.Time
}

// heldLease is a lease of an outside worker.
type heldLease struct {
	lease
	ends time.Time
	// overAt is when the time to run is over, by the clock of this process; zero for never.
	overAt time.Time
	// endAt is when this process ends the attempt: at overAt, or later if the store failed then; zero
	// for never.
	endAt time.Time
}

// put adds a lease, or replaces it. The caller holds the lock.
func (h *held) put(l lease, ends, overAt time.Time) {
	own := &heldLease{lease: l, ends: ends, overAt: overAt, endAt: overAt}
	h.leases[l.Lease] = own
	h.schedule(own)
}

func (h *held) init(d *Dispatcher) {
	h.d = d
	h.leases = map[driver.Lease]*heldLease{}
}

// add remembers a lease that was just taken. maxTime is the time to run; 0 for no limit.
func (h *held) add(l lease, taken time.Time, maxTime time.Duration) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	var overAt time.Time
	if maxTime > 0 {
		overAt = time.Now().Add(maxTime) // the run began between taken and now
	}
	h.put(l, taken.Add(l.length), overAt)
}

// renew remembers a lease that was just renewed.
func (h *held) renew(l lease, ends time.Time) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	own := h.leases[l.Lease]
	if own == nil {
		h.put(l, ends, l.runBy)
		return
	}
	own.ends = ends
	h.schedule(own)
}

// watch remembers a lease of another process unless it is known.
func (h *held) watch(l lease, ends time.Time) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.leases[l.Lease] == nil {
		h.put(l, ends, l.runBy)
	}
}

// runBy returns when the job of a lease must have ended; zero for no limit. A lease that was taken here
// is measured from then on. The token of another has a time by the wall clock of the server that took it.
func (h *held) runBy(l lease) time.Time {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if own := h.leases[l.Lease]; own != nil {
		return own.overAt
	}
	return l.runBy
}

// isOver reports whether the time by which a job must have ended has come; zero for no limit.
func isOver(runBy, now time.Time) bool { return !runBy.IsZero() && !runBy.After(now) }

// forget removes a lease.
func (h *held) forget(l driver.Lease) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	delete(h.leases, l)
}

// schedule makes sure that there is a tick in time for a lease. The caller holds the lock.
func (h *held) schedule(l *heldLease) {
	now := time.Now()
	soon := now.Add(tickOf(l.length))
	if h.recoverAt.IsZero() || soon.Before(h.recoverAt) {
		h.recoverAt = soon
	}
	h.tickBy(h.recoverAt, now)
	h.tickBy(l.endAt, now)
}

func tickOf(length time.Duration) time.Duration { return min(max(length/4, minTick), maxTick) }

func (h *held) tickBy(at, now time.Time) {
	if at.IsZero() || h.d.closed || !h.tickAt.IsZero() && !at.Before(h.tickAt) {
		return
	}
	h.tickAt = at
	wait := max(0, at.Sub(now))
	if h.timer == nil {
		h.timer = time.AfterFunc(wait, h.tick)
	} else {
		h.timer.Reset(wait)
	}
}

// tick recovers leases, and ends the attempts whose time to run is over.
func (h *held) tick() {
	if err := h.d.enter(); err != nil {
		return
	}
	defer h.d.leave()
	over, lost, mayRecover := h.due()
	if mayRecover {
		h.d.leases.Recover()
	}
	h.endLost(lost)
	for some := range slices.Chunk(over, MaxBatch) {
		h.endOver(some)
	}
}

// due returns the leases whose time to run is over, and forgets leases that ran out long ago.
// lost are leases that have run out and end the attempt if they are lost. It sets the next tick.
func (h *held) due() (over, lost []lease, mayRecover bool) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	now := time.Now()
	h.tickAt = time.Time{}
	mayRecover = !h.recoverAt.After(now)
	if mayRecover {
		h.recoverAt = time.Time{}
	}
	for key, l := range h.leases {
		if isOver(l.endAt, now) && l.ends.Before(l.overAt) {
			// The run was interrupted before its time was over. If another process has renewed the
			// lease, that process ends the attempt.
			l.endAt, mayRecover = time.Time{}, true
		}
		switch {
		case isOver(l.endAt, now):
			over = append(over, l.lease)
			l.endAt = now.Add(tickOf(l.length)) // if the attempt can't be ended now
			h.schedule(l)
		case l.ends.Add(forgetAfter).Before(now):
			delete(h.leases, key)
		default:
			h.schedule(l)
			if l.ends.Before(now) && strings.HasPrefix(l.Owner, queue.AttemptOwner) {
				lost = append(lost, l.lease)
			}
		}
	}
	return over, lost, mayRecover
}

// endLost ends the attempts of leases that were recovered, and forgets them.
func (h *held) endLost(lost []lease) {
	for _, l := range lost {
		ctx, cancel := context.WithTimeout(h.d.open, callLimit)
		over, err := h.d.leases.EndLost(ctx, l.jobID, l.Lease)
		cancel()
		if err != nil {
			// The next tick tries again, and so does the next lease of the job.
			logging.Error(h.d.open, h.d.failure("could not end an attempt whose lease ran out", l.Queue, l.jobID, err))
		}
		if over {
			h.forget(l.Lease)
		}
	}
}

// endOver ends attempts whose time to run is over.
func (h *held) endOver(over []lease) {
	ctx, cancel := context.WithTimeout(h.d.open, callLimit)
	defer cancel()
	ends := make([]queue.LeaseEnd, len(over))
	for i, l := range over {
		ends[i] = queue.LeaseEnd{JobID: l.jobID, Lease: l.Lease, Over: true}
	}
	for i, err := range h.d.leases.End(ctx, ends) {
		if endsRun(err) {
			h.forget(over[i].Lease)
			continue
		}
		// A later tick tries again, and so does the next lease of the job.
		logging.Error(ctx, h.d.failure("could not end an attempt whose time to run is over", over[i].Queue, over[i].jobID, err))
	}
}

// close stops the timer. The caller holds the lock.
func (h *held) close() {
	if h.timer != nil {
		h.timer.Stop()
	}
}
