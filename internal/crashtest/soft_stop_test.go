package crashtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var stops = flag.Int("crashtest.stops", 2, "the number of queues that TestSoftStop closes")

// deployment is two queues on one store, which are replaced one at a time, as processes
// are when a new version is rolled out.
type deployment struct {
	t       *testing.T
	store   store
	journal *journal

	mu     sync.Mutex
	queues [2]amboy.RetryableQueue
	last   int
}

const (
	// softStopLease lets jobs run again that Close had to leave behind.
	softStopLease = 20 * time.Second
	// handBackTime is how long Close tries to hand back a job after its context has ended; see
	// pool.Close.
	handBackTime = 600 * time.Millisecond
)

func newDeployment(t *testing.T, s store, j *journal) *deployment {
	d := &deployment{t: t, store: s, journal: j}
	for i := range d.queues {
		d.queues[i] = d.start()
	}
	return d
}

func (d *deployment) start() amboy.RetryableQueue {
	d.t.Helper()
	q := newQueue(d.t, newRecorder(d.store.open(d.t), d.journal), softStopLease)
	require.NoError(d.t, q.Start(context.WithoutCancel(d.t.Context())))
	return q
}

// open returns the open queues in turn.
func (d *deployment) open() amboy.Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	return d.queues[d.last%len(d.queues)]
}

// replace replaces a queue by a new one and returns the old one.
func (d *deployment) replace(i int) (old amboy.RetryableQueue) {
	started := d.start()
	d.mu.Lock()
	defer d.mu.Unlock()
	old, d.queues[i] = d.queues[i], started
	return old
}

// TestSoftStop closes one queue at a time while it runs jobs. When Close returns, the queue must hold
// none.
func TestSoftStop(t *testing.T) { onEachStore(t, testSoftStop) }

func testSoftStop(t *testing.T, newStore func(*testing.T) store) {
	if !inChild(t, nil) {
		return
	}
	t.Logf("-crashtest.seed=%d -crashtest.stops=%d", *seed, *stops)
	s := newStore(t)
	j := newMemoryJournal()
	registerJobs(j)
	d := newDeployment(t, s, j)
	observer := newQueue(t, s.open(t), softStopLease)
	defer closeQueue(t, observer)

	p := newPlan(planOptions{Seed: *seed, Load: time.Duration(*stops) * time.Second, Scopes: 8, LongWork: time.Second / 2})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producers sync.WaitGroup
	began := time.Now()
	for part := range processes {
		producer := &producer{queue: d.open, journal: j}
		producers.Go(func() { producer.produce(ctx, p.puts[part], began) })
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	for i := range *stops {
		j.await(t, j.count(isRun)+1+random.IntN(15), "runs that begin", isRun)
		stopped := d.replace(random.IntN(len(d.queues)))
		late := putUntilClosed(t, stopped, j, fmt.Sprintf("late-%03d", i))
		closeSoftly(t, stopped, random, observer)
		for _, one := range <-late {
			p.tasks[one.ID] = one
		}
	}
	cancel()
	producers.Wait()

	awaitIdle(t, observer)
	putLast(t, observer, p, j)
	awaitIdle(t, observer)
	for _, q := range d.queues {
		closeQueue(t, q)
	}
	events, _ := j.events()
	h := &history{plan: p, lease: softStopLease, events: events, stored: storedIn(t, observer, p)}
	requireKept(t, h)
	t.Logf("%d jobs, %d runs, %d of them interrupted", len(h.stored), j.count(isRun),
		j.count(func(e event) bool { return e.Outcome == interrupted }))
}

func isRun(e event) bool { return e.Kind == began }

// putUntilClosed puts jobs in a queue until it is closed, and then sends all their tasks.
// It returns after the first job was accepted.
func putUntilClosed(t *testing.T, q amboy.Queue, j *journal, name string) <-chan []*task {
	t.Helper()
	result := make(chan []*task, 1)
	go func() {
		var tasks []*task
		for err := error(nil); err == nil; {
			one := &task{ID: fmt.Sprintf("%s-%04d", name, len(tasks))}
			tasks = append(tasks, one)
			err = putLate(t.Context(), q, j, one)
		}
		result <- tasks
	}()
	j.await(t, 1, "a Put", func(e event) bool { return strings.HasPrefix(e.Job, name) })
	return result
}

// putLate puts a job in a queue that may be closed meanwhile, and records the outcome if
// it is known.
func putLate(ctx context.Context, q amboy.Queue, j *journal, one *task) error {
	late, err := newJob(one)
	if err != nil {
		panic(err)
	}
	err = q.Put(ctx, late)
	e := event{Kind: accepted, At: time.Now(), Job: one.ID}
	switch {
	case errors.Is(err, amboy.ErrQueueClosed) && errors.Is(err, driver.ErrOutcomeUnknown):
		return err
	case err != nil:
		e.Kind, e.Allowed, e.Reason = refused, errors.Is(err, amboy.ErrQueueClosed), err.Error()
	}
	j.write(e)
	return err
}

// closeSoftly closes a queue, half of the time at once and otherwise with a little
// patience, and checks that everything was handed back when Close returned, unless the store
// was so slow that Close had to give up.
func closeSoftly(t *testing.T, q amboy.Queue, random *rand.Rand, observer amboy.Queue) {
	t.Helper()
	const mostPatience = 50 * time.Millisecond
	waits := time.Duration(random.IntN(2)) * upTo(random, mostPatience)
	ctx, cancel := context.WithTimeout(t.Context(), waits)
	defer cancel()
	began := time.Now()
	q.Close(ctx)
	gaveUp := time.Since(began) >= waits+handBackTime
	for info := range observer.JobInfo(t.Context()) {
		if info.Status.Owner == q.ID() && !info.State.IsFinal() {
			assert.True(t, gaveUp, "job %s is %s and held by a closed queue", info.ID, info.State)
			t.Logf("job %s was left behind", info.ID)
		}
	}
}
