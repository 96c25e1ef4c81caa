package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// outage is a period in which the store of a queue can't be written.
type outage struct {
	// begin and end begin and end the outage.
	begin, end func(t *testing.T, location string)
	// lasts is how much longer it lasts after a Put has failed.
	lasts time.Duration
}

// The times of an outage test.
const (
	outageLease    = time.Second / 2
	impatience     = 200 * time.Millisecond // the deadline of a Put during the outage
	workInOutage   = 300 * time.Millisecond
	jobsBefore     = 20
	mostPutsLeft   = 100 // Puts that may still succeed after the outage began
	promptly       = 10 * time.Second
	shortestOutage = 2 * outageLease // so that leases run out
)

// survive runs a queue through an outage. Running jobs must end, a Put must fail within
// the time that its context allows, and afterwards everything must continue by itself.
func survive(t *testing.T, on store, o outage) {
	t.Helper()
	s := &survivor{t: t, journal: newMemoryJournal(), plan: &plan{tasks: map[string]*task{}}}
	registerJobs(s.journal)
	s.queue = newQueue(t, newRecorder(on.open(t), s.journal), outageLease)
	defer closeQueue(t, s.queue)
	require.NoError(t, s.queue.Start(context.WithoutCancel(t.Context())))

	for i := range jobsBefore {
		require.NoError(t, s.put(t.Context(), fmt.Sprint("before-", i), 0))
	}
	for i := range workers {
		require.NoError(t, s.put(t.Context(), fmt.Sprint("running-", i), workInOutage))
	}
	s.journal.await(t, jobsBefore+workers, "runs that begin", isRun)
	o.begin(t, on.Location)
	began := time.Now()
	refused := s.putUntilRefused()
	waiting := s.putPatiently()
	s.journal.await(t, jobsBefore+workers, "runs that end", func(e event) bool { return e.Kind == ended })
	<-time.After(time.Until(began.Add(max(o.lasts, shortestOutage))))
	o.end(t, on.Location)

	require.NoError(t, s.put(t.Context(), "after", 0), "Put after the outage")
	<-waiting
	awaitIdle(t, s.queue)
	events, _ := s.journal.events()
	h := &history{plan: s.plan, lease: outageLease, events: events, stored: storedIn(t, s.queue, s.plan)}
	requireKept(t, h)
	_, isThere := h.stored[refused]
	assert.False(t, isThere, "the job of the failed Put must not exist")
}

// survivor is a queue that runs through an outage.
type survivor struct {
	t       *testing.T
	queue   amboy.Queue
	journal *journal
	plan    *plan
}

func (s *survivor) put(ctx context.Context, id string, work time.Duration) error {
	s.t.Helper()
	one := &task{ID: id, Work: work}
	j, err := newJob(one)
	require.NoError(s.t, err)
	s.plan.tasks[id] = one
	err = s.queue.Put(ctx, j)
	if err == nil {
		s.journal.write(event{Kind: accepted, At: time.Now(), Job: id})
	}
	return err
}

// putUntilRefused puts jobs until one is refused. It returns the ID of that job, or an
// empty string if the job may exist all the same.
func (s *survivor) putUntilRefused() string {
	s.t.Helper()
	for i := range mostPutsLeft {
		ctx, cancel := context.WithTimeout(s.t.Context(), impatience)
		began := time.Now()
		id := fmt.Sprint("during-", i)
		err := s.put(ctx, id, 0)
		cancel()
		if err == nil {
			continue
		}
		s.t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
		assert.Less(s.t, time.Since(began), impatience+promptly, "Put must return when its context ends")
		require.ErrorContains(s.t, err, id)
		if errors.Is(err, driver.ErrOutcomeUnknown) {
			return ""
		}
		return id
	}
	require.Fail(s.t, "no Put was refused")
	return ""
}

// putPatiently puts a job without a deadline. Its Put may wait for the end of the outage,
// or must return an error that explains it. The returned channel is closed when the Put
// has returned.
func (s *survivor) putPatiently() <-chan struct{} {
	s.t.Helper()
	one := &task{ID: "patient"}
	s.plan.tasks[one.ID] = one
	j, err := newJob(one)
	require.NoError(s.t, err)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		putErr := s.queue.Put(s.t.Context(), j)
		if putErr == nil {
			s.journal.write(event{Kind: accepted, At: time.Now(), Job: one.ID})
			return
		}
		s.t.Logf("Put without a deadline: %v", putErr)
		assert.ErrorContains(s.t, putErr, one.ID)
	}()
	return returned
}
