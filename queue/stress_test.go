package queue_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/registry"
)

// stressJob reports its runs to the checker of its test.
type stressJob struct {
	job.Base `bson:"job_base" json:"job_base"`
	World    string `bson:"world" json:"world"`
	Conduct  string `bson:"conduct" json:"conduct"`
}

const stressJobType = "stress"

// stressWorlds are the running stress tests by name. A queue that stores jobs runs
// copies, which find their test here.
var stressWorlds sync.Map

func init() {
	registry.AddJobType(stressJobType, func() amboy.Job { return newStressJob() })
}

func newStressJob() *stressJob {
	j := &stressJob{}
	j.JobType = amboy.JobType{Name: stressJobType}
	return j
}

func (j *stressJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	world, ok := stressWorlds.Load(j.World)
	if !ok {
		return // its test has ended with a failure
	}
	c := world.(*stress).checker
	attempt := j.RetryInfo().CurrentAttempt
	c.begin(j.ID(), attempt, j.Scopes())
	defer c.finish(j.ID(), j.Scopes())
	switch j.Conduct {
	case "yields":
		for range 10 {
			runtime.Gosched()
		}
	case "waits": // until it is aborted
		<-ctx.Done()
	case "fails":
		j.AddError(errors.New("failed"))
	case "panics":
		panic("as planned")
	case "retries":
		if attempt == 0 && j.RetryInfo().Retryable {
			c.retry(j.ID())
			j.AddRetryableError(errors.New("once more"))
		}
	}
}

// The stress on a queue: goroutines of four kinds, 64 in all.
const (
	stressPutters   = 44
	stressAborters  = 8
	stressObservers = 10
	stressClosers   = 2

	stressWorkers  = 16
	stressCapacity = 64
)

var longStress = flag.Bool("queue.stress", false, "put more jobs in the stress tests of queues")

// stressed returns number if the flag is set, and short otherwise.
func stressed(number, short int) int {
	if *longStress {
		return number
	}
	return short
}

// stressPuts is the number of jobs of each putter.
func stressPuts() int { return stressed(40, 20) }

// stress is one stress test.
type stress struct {
	name      string
	queue     amboy.Queue
	runner    amboy.AbortableRunner
	retryable bool
	checker   *checker

	once   sync.Once
	enough chan struct{} // closed when enough jobs were put
	closed chan struct{} // closed when the queue is closed
}

// newJob returns a random job.
func (s *stress) newJob(random *rand.Rand, id string) *stressJob {
	j := newStressJob()
	j.SetID(id)
	j.World = s.name
	conducts := []string{"returns", "returns", "yields", "yields", "fails", "panics", "retries", "retries", "waits"}
	j.Conduct = conducts[random.IntN(len(conducts))]
	j.SetPriority(random.IntN(3))
	var scopes []string
	for _, scope := range []string{"red", "green", "blue", "black"} {
		if random.IntN(8) == 0 {
			scopes = append(scopes, scope)
		}
	}
	j.SetScopes(scopes)
	if random.IntN(4) == 0 {
		j.SetEnqueueAllScopes(true)
	}
	switch random.IntN(16) {
	case 0:
		j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Millisecond)})
	case 1:
		j.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Millisecond)})
	}
	if s.retryable && j.Conduct == "retries" {
		attempts := 2
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: &attempts})
	}
	return j
}

// put puts jobs until it has put all of its own, or the queue is closed.
func (s *stress) put(ctx context.Context, random *rand.Rand, putter int) {
	puts := stressPuts()
	for i := range puts {
		if i == puts/2 {
			s.once.Do(func() { close(s.enough) })
		}
		j := s.newJob(random, fmt.Sprintf("%d-%d", putter, i))
		s.checker.offer(j.ID(), !j.TimeInfo().DispatchBy.IsZero())
		err := s.queue.Put(ctx, j)
		s.checker.answer(j.ID(), err)
		switch {
		case err == nil && random.IntN(8) == 0:
			if amboy.WaitJob(ctx, j, s.queue) {
				s.checker.end(j.ID())
			}
		case err == nil || amboy.IsDuplicateJobScopeError(err):
		case errors.Is(err, amboy.ErrQueueClosed):
			return
		default:
			s.checker.faultf("putting job %q: %v", j.ID(), err)
		}
	}
}

func (s *stress) isOpen() bool {
	select {
	case <-s.closed:
		return false
	default:
		return true
	}
}

// abort aborts running jobs until the queue is closed.
func (s *stress) abort(ctx context.Context, random *rand.Rand) {
	for s.isOpen() {
		runtime.Gosched()
		running := s.runner.RunningJobs()
		if len(running) == 0 {
			continue
		}
		id := running[random.IntN(len(running))]
		err := s.runner.Abort(ctx, id)
		switch {
		case err == nil:
			s.checker.end(id)
		case !amboy.IsJobNotFoundError(err):
			s.checker.faultf("aborting job %q: %v", id, err)
		}
	}
}

// observe reads Stats until the queue is closed.
func (s *stress) observe(ctx context.Context) {
	for s.isOpen() {
		s.checker.observe(func() amboy.QueueStats { return s.queue.Stats(ctx) })
		runtime.Gosched()
	}
}

// run puts a queue under stress, and closes it when untilClose returns: softly, or at
// once.
func (s *stress) run(ctx context.Context, t *testing.T, untilClose func(context.Context, *stress, *sync.WaitGroup), atOnce bool) {
	t.Helper()
	patience, lose := context.WithCancel(ctx)
	defer lose()
	if atOnce {
		lose()
	}
	seed := rand.Uint64()
	random := func(stream int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(stream))) }
	stressWorlds.Store(s.name, s)
	defer stressWorlds.Delete(s.name)
	require.NoError(t, s.queue.SetRunner(s.runner))
	require.NoError(t, s.queue.Start(ctx))

	var putters, others, closers sync.WaitGroup
	for i := range stressPutters {
		putters.Go(func() { s.put(ctx, random(i), i) })
	}
	for i := range stressAborters {
		others.Go(func() { s.abort(ctx, random(stressPutters+i)) })
	}
	for range stressObservers {
		others.Go(func() { s.observe(ctx) })
	}
	for range stressClosers {
		closers.Go(func() {
			untilClose(ctx, s, &putters)
			s.queue.Close(patience)
		})
	}
	closers.Wait()
	close(s.closed)
	putters.Wait()
	others.Wait()

	stats := s.queue.Stats(context.WithoutCancel(ctx))
	require.NoError(t, ctx.Err(), "the test took too long: %s", stats.String())
	var infos []amboy.JobInfo
	for info := range s.queue.JobInfo(ctx) {
		infos = append(infos, info)
	}
	s.checker.settle(stats, infos)
	assert.Empty(t, s.checker.found(), "seed %d", seed)
	t.Logf("offered %d, accepted %d, %s", s.checker.offered.Load(), s.checker.accepted.Load(), stats.String())
}

// whenDone waits until every job has been put and has ended.
func whenDone(ctx context.Context, s *stress, putters *sync.WaitGroup) {
	putters.Wait()
	amboy.Wait(ctx, s.queue)
	if stats := s.queue.Stats(context.WithoutCancel(ctx)); !stats.IsIdle() {
		s.checker.faultf("the wait is over, and Stats are: %s", stats)
	}
}

// halfway waits until some of the jobs have been put.
func halfway(ctx context.Context, s *stress, _ *sync.WaitGroup) {
	select {
	case <-s.enough:
	case <-ctx.Done():
	}
}

func TestStress(t *testing.T) {
	for kind, build := range kinds {
		for name, test := range map[string]struct {
			untilClose func(context.Context, *stress, *sync.WaitGroup)
			atOnce     bool
		}{
			"until all is done": {untilClose: whenDone},
			"and close":         {untilClose: halfway},
			"and close at once": {untilClose: halfway, atOnce: true},
		} {
			run := func(t *testing.T) {
				q := build(t, stressWorkers, stressCapacity)
				_, retryable := q.(amboy.RetryableQueue)
				s := &stress{
					name:      t.Name(),
					queue:     q,
					runner:    pool.NewAbortablePool(stressWorkers, q),
					retryable: retryable,
					checker:   &checker{},
					enough:    make(chan struct{}),
					closed:    make(chan struct{}),
				}
				s.run(within(t), t, test.untilClose, test.atOnce)
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				if !test.atOnce {
					run(t)
					return
				}
				// On a busy machine the second that Close has may be too short, so its time is fake.
				synctest.Test(t, run)
			})
		}
	}
}
