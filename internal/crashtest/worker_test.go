package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// workers is the number of jobs that each process runs at once.
const workers = 4

// setup is the configuration of a crash test and its processes.
type setup struct {
	Store store
	Plan  planOptions
	Lease time.Duration
	Fault fault
	// FailOneIn makes one in this many calls of the store fail; 0 means none.
	FailOneIn int
}

// workerConfig is the configuration of one process.
type workerConfig struct {
	setup
	Dir     string // of the journals
	Process int    // the part of the plan that it puts
	Name    string // unique among the processes that take this part in turn
	Began   time.Time
}

// configVariable makes a process of these tests a worker.
const configVariable = "CRASHTEST_WORKER"

// The lines that a worker prints for the process that started it.
const (
	saysReady    = "crashtest: ready"
	saysProduced = "crashtest: put everything"
)

// newQueue returns a queue that closes its store.
func newQueue(t *testing.T, d driver.Driver, lease time.Duration) amboy.RetryableQueue {
	t.Helper()
	scanEvery := maintenance
	if _, surveys := d.(driver.Surveyor); surveys {
		scanEvery = 0 // the default, as in a service: surveys find what other processes left behind
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver:      d,
		CloseDriver: true,
		NumWorkers:  workers,
		LockTimeout: lease,
		Retryable: queue.RetryableQueueOptions{
			StaleRetryingMonitorInterval: scanEvery,
			MaxInterruptions:             1_000_000, // no operator releases parked jobs
		},
	})
	require.NoError(t, err)
	return q
}

// maintenance is how often a queue without surveys recovers what other processes left behind.
const maintenance = time.Second / 4

// heartbeat is how often a queue renews its leases.
func heartbeat(lease time.Duration) time.Duration { return lease / 4 }

// TestWorker is run by the processes that are killed: a queue on the common store and the
// producer of a part of the plan. It ends when its standard input ends, which also
// happens if the process that started it dies.
func TestWorker(t *testing.T) {
	encoded := os.Getenv(configVariable)
	if encoded == "" {
		t.Skip("run only by other tests")
	}
	var config workerConfig
	require.NoError(t, json.Unmarshal([]byte(encoded), &config))

	journal := openJournal(t, config.Dir, config.Name)
	registerJobs(journal)
	d := config.Store.open(t)
	if config.Fault != "" {
		d = asDeployed(&faultyDriver{Driver: d, fault: config.Fault}, d)
	}
	d = newRecorder(d, journal)
	if config.FailOneIn > 0 {
		d = newFailing(d, journal, config.FailOneIn, config.Name)
	}
	q := newQueue(t, d, config.Lease)
	require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
	fmt.Println(saysReady)

	p := &producer{queue: func() amboy.Queue { return q }, journal: journal, settled: settledBefore(t, config)}
	ctx, stop := context.WithCancel(t.Context())
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		p.produce(ctx, newPlan(config.Plan).puts[config.Process], config.Began)
		fmt.Println(saysProduced)
	}()
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	stop()
	<-produced
	closeQueue(t, q)
}

// closeQueue closes a queue that has no work.
func closeQueue(t *testing.T, q amboy.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	q.Close(ctx)
	require.NoError(t, ctx.Err(), "closing the queue took too long")
}

// settledBefore returns the jobs whose outcome earlier processes of the same part
// recorded.
func settledBefore(t *testing.T, config workerConfig) map[string]bool {
	t.Helper()
	settled := map[string]bool{}
	for _, e := range readJournals(t, config.Dir, prefixOf(config.Process)) {
		if e.Kind == accepted || e.Kind == refused {
			settled[e.Job] = true
		}
	}
	return settled
}

// producer puts jobs and records which were accepted.
type producer struct {
	// queue returns an open queue.
	queue   func() amboy.Queue
	journal *journal
	settled map[string]bool
	// insists is true if a Put that fails because of the store is repeated, as by a
	// service that has no other place for the job.
	insists bool
}

// produce puts the jobs without a recorded outcome, at their times or later.
func (p *producer) produce(ctx context.Context, puts []put, since time.Time) {
	for _, next := range puts {
		if p.isSettled(next) {
			continue
		}
		timer := time.NewTimer(time.Until(since.Add(next.at)))
		select {
		case <-timer.C:
			p.put(ctx, next.tasks)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (p *producer) isSettled(next put) bool {
	for _, t := range next.tasks {
		if !p.settled[t.ID] {
			return false
		}
	}
	return true
}

// put puts tasks together and records the outcome. If it is not the same for all, each
// task is put again alone. A job that exists already was put by a process that was killed
// before it could record that. If ctx ends, nothing is recorded: the jobs may exist or
// not.
func (p *producer) put(ctx context.Context, tasks []*task) {
	var jobs []amboy.Job
	for _, t := range tasks {
		j, err := newJob(t)
		if err != nil {
			panic(err)
		}
		jobs = append(jobs, j)
	}
	err := p.putSomewhere(ctx, jobs)
	if ctx.Err() != nil {
		return // unknown
	}
	if err != nil && len(tasks) > 1 {
		for i := range tasks {
			p.put(ctx, tasks[i:i+1])
		}
		return
	}
	e := event{Kind: accepted, At: time.Now()}
	isThere := amboy.IsDuplicateJobError(err) && !amboy.IsDuplicateJobScopeError(err)
	if err != nil && !isThere {
		e.Kind, e.Allowed, e.Reason = refused, amboy.IsDuplicateJobScopeError(err), err.Error()
	}
	for _, t := range tasks {
		e.Job = t.ID
		p.journal.write(e)
	}
}

// putSomewhere puts jobs in an open queue. If that is closed meanwhile, it uses another
// one, with the same IDs.
func (p *producer) putSomewhere(ctx context.Context, jobs []amboy.Job) error {
	for {
		err := p.queue().PutMany(ctx, jobs)
		again := errors.Is(err, amboy.ErrQueueClosed) || (p.insists && isFailureOfStore(err))
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// isFailureOfStore reports whether an error of a Put is independent of the jobs.
func isFailureOfStore(err error) bool {
	var invalid *amboy.InvalidJobError
	return err != nil && !amboy.IsDuplicateJobError(err) && !errors.As(err, &invalid)
}
