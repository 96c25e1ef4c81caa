package crashtest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// trial describes the load on a store that has faults.
type trial struct {
	// load is the minimum time for which jobs are put.
	load time.Duration
	// lease is the lock timeout of the queues.
	lease time.Duration
	// longWork is how long some jobs take. If it is zero, that is longer than a lease.
	longWork time.Duration
	// catchUp is how long the queues may take to run what is left. If it is zero, that is patience.
	catchUp time.Duration
}

// withstand runs a plan on two queues while their store has faults, and requires that every promise is
// kept. It puts jobs at least until faults has returned. The journal contains what has happened so far.
func withstand(t *testing.T, on store, tr trial, faults func(*journal)) *history {
	t.Helper()
	if tr.longWork == 0 {
		tr.longWork = tr.lease * 5 / 4
	}
	j := newMemoryJournal()
	registerJobs(j)
	p := newPlan(planOptions{Seed: *seed, Load: tr.load, Scopes: 8, LongWork: tr.longWork})
	observer := newQueue(t, on.open(t), tr.lease)
	defer closeQueue(t, observer)
	var queues [2]amboy.RetryableQueue
	for i := range queues {
		queues[i] = newQueue(t, newRecorder(on.open(t), j), tr.lease)
		require.NoError(t, queues[i].Start(context.WithoutCancel(t.Context())))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producers sync.WaitGroup
	began := time.Now()
	for part := range processes {
		producer := &producer{queue: func() amboy.Queue { return queues[part%len(queues)] }, journal: j, insists: true}
		producers.Go(func() { producer.produce(ctx, p.puts[part], began) })
	}
	faults(j)
	producers.Wait()

	awaitIdleFor(t, observer, max(tr.catchUp, patience))
	putLast(t, observer, p, j)
	awaitIdle(t, observer)
	for _, q := range queues {
		closeQueue(t, q)
	}
	events, _ := j.events()
	h := &history{plan: p, lease: tr.lease, events: events, stored: storedIn(t, observer, p)}
	requireKept(t, h)
	t.Logf("%d jobs, %d runs", len(h.stored), j.count(isRun))
	return h
}
