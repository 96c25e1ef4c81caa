package shells_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/simulation"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

var (
	seed  = flag.Uint64("shells.seed", 1, "the seed of jobs, kills and failures")
	kills = flag.Int("shells.kills", 10, "the number of processes that are killed")
	fails = flag.Int("shells.fails", 10, "the minimum number of calls that fail")
)

// The processes of the test.
const (
	processes = 3
	workers   = 3
	lease     = 4 * time.Second
	retryScan = 5 * time.Second
)

// lastLines is the number of printed lines of a timeline.
const lastLines = 150

// shells is a set of real queues on a shared store. Each stands for a process: when that
// is killed, none of its calls reaches the store any more, and its jobs stop.
type shells struct {
	t          *testing.T
	random     *rand.Rand // guarded by mu
	deployment *mongotest.Deployment
	began      time.Time
	// turn has one element. Each call takes it while it is made, so that the history has
	// the order of the store. It is a channel because virtual time does not advance while
	// a goroutine waits for a mutex.
	turn chan struct{}
	tell *producer

	mu      sync.Mutex
	checker *simulation.Checker
	events  []simulation.Event
	tasks   map[string]*simulation.Task
	owners  map[string]*shell
	calm    bool // calls no longer fail
	failed  int
	kills   int
}

// running is the test whose jobs run: the registry creates jobs for one test at a time.
var running *shells

// TestShells runs the checker of the simulation on the engine with its real shell, in
// virtual time over MongoDB.
func TestShells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shells{
			t:          t,
			random:     rand.New(rand.NewPCG(*seed, 3)),
			deployment: mongotest.Open(t, mongotest.InMemory()),
			began:      time.Now(),
			turn:       make(chan struct{}, 1),
			checker:    simulation.NewChecker(true),
			tasks:      map[string]*simulation.Task{},
			owners:     map[string]*shell{},
		}
		running = s
		s.run()
		t.Logf("seed %d: %d jobs, %d kills, %d failed calls, %d events in %s", *seed, len(s.tasks), s.kills, s.failed, len(s.events), time.Since(s.began))
	})
}

func (s *shells) run() {
	s.tell = s.newProducer()
	live := make([]*shell, processes)
	for i := range live {
		live[i] = s.start(i)
	}
	var closing sync.WaitGroup
	for s.kept() && (s.kills < *kills || s.failures() < *fails) {
		s.tell.put(1 + s.upTo(3))
		time.Sleep(time.Duration(s.upTo(2000)) * time.Millisecond)
		if i := s.upTo(processes); s.kills < *kills && s.holds(live[i]) {
			s.kills++
			dead := live[i]
			dead.kill()
			closing.Go(func() { dead.close(canceled()) })
			time.Sleep(time.Duration(s.upTo(500)) * time.Millisecond)
			live[i] = s.start(i)
		}
	}
	s.setCalm()
	patience := lease + lease/4 + retryScan + time.Minute
	for waited := time.Duration(0); s.kept() && s.open() > 0 && waited < patience; waited += time.Second {
		time.Sleep(time.Second)
	}
	for _, p := range live {
		p.close(context.Background())
	}
	s.tell.close()
	closing.Wait()
	if v := s.checker.End(time.Since(s.began)); v != nil {
		events := simulation.Concerning(s.events, v.Jobs...)
		require.NoError(s.t, simulation.Timeline(os.Stdout, processes, events[max(0, len(events)-lastLines):]))
		s.t.Errorf("seed %d: %s", *seed, v)
	}
}

// kept reports whether no promise was broken so far.
func (s *shells) kept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checker.Violation() == nil
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (s *shells) upTo(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

func (s *shells) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.checker.Open())
}

func (s *shells) failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *shells) setCalm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = true
}

func (s *shells) log(e simulation.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.At = time.Since(s.began)
	s.events = append(s.events, e)
	s.checker.Observe(e)
}

func (s *shells) newQueue(d driver.Driver, workers int) amboy.RetryableQueue {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: d, CloseDriver: true, NumWorkers: workers, LockTimeout: lease,
		Retryable: queue.RetryableQueueOptions{
			StaleRetryingMonitorInterval: retryScan,
			MaxInterruptions:             1_000_000, // no operator releases parked jobs
		},
	})
	require.NoError(s.t, err)
	require.NoError(s.t, q.Start(context.Background()))
	return q
}

func (s *shells) openStore() driver.Driver {
	d, err := mongodb.Open(context.Background(), mongodb.Options{
		Client: s.deployment.Client(), DB: s.deployment.Database(), Collection: "simulation",
	})
	require.NoError(s.t, err)
	return d
}

// shell is a process: a queue and its connection to the store.
type shell struct {
	driver.Driver
	s     *shells
	index int
	queue amboy.RetryableQueue
	dead  chan struct{}

	mu   sync.Mutex
	runs map[driver.Lease]claimedRun
}

// claimedRun is the attempt that a lease belongs to.
type claimedRun struct {
	job     string
	attempt int
}

func (s *shells) newShell(index int) *shell {
	return &shell{Driver: s.openStore(), s: s, index: index, dead: make(chan struct{}), runs: map[driver.Lease]claimedRun{}}
}

func (s *shells) start(index int) *shell {
	p := s.newShell(index)
	p.queue = s.newQueue(p, workers)
	return p
}

// kill keeps everything that the process does from having an effect.
func (p *shell) kill() {
	p.s.turn <- struct{}{}
	defer func() { <-p.s.turn }()
	close(p.dead)
	p.s.log(simulation.Event{Process: p.index, Kind: simulation.Stopped})
}

func (p *shell) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *shell) close(ctx context.Context) { p.queue.Close(ctx) }

// holds reports whether a process runs a job.
func (s *shells) holds(p *shell) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.runs) > 0
}

var (
	errKilled = errors.New("the process was killed")
	errFails  = errors.New("the store fails")
)

// fault is the fate of a call.
type fault int

const (
	none fault = iota
	before
	after
	hangs
	late
)

// fault decides the fate of a call.
func (s *shells) fault() fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm || s.random.IntN(12) > 0 {
		return none
	}
	f := before + fault(s.random.IntN(int(late)))
	if f != late {
		s.failed++
	}
	return f
}

// call makes a call of the store and logs its effect.
func call[T any](ctx context.Context, p *shell, do func(context.Context) (T, error), logEffect func(T)) (T, error) {
	var nothing T
	fault := p.s.fault()
	switch fault {
	case before:
		return nothing, errFails
	case hangs:
		<-ctx.Done()
		return nothing, ctx.Err()
	case late:
		time.Sleep(time.Duration(p.s.upTo(int(lease))))
	}
	answer, err := inTurn(ctx, p, do, logEffect)
	if err == nil && fault == after {
		return nothing, errFails
	}
	return answer, err
}

func inTurn[T any](ctx context.Context, p *shell, do func(context.Context) (T, error), logEffect func(T)) (T, error) {
	var nothing T
	p.s.turn <- struct{}{}
	defer func() { <-p.s.turn }()
	if p.isDead() {
		return nothing, errKilled
	}
	answer, err := do(context.WithoutCancel(ctx)) // takes no time
	if err == nil {
		logEffect(answer)
	}
	return answer, err
}

func (p *shell) log(k simulation.Kind, l driver.Lease, change func(*simulation.Event)) {
	p.mu.Lock()
	run := p.runs[l]
	p.mu.Unlock()
	e := simulation.Event{Process: p.index, Kind: k, Job: run.job, Attempt: run.attempt, Lease: l.Count}
	if change != nil {
		change(&e)
	}
	p.s.log(e)
}

func (p *shell) untilLeaseEnds(e *simulation.Event) {
	e.Until = time.Since(p.s.began) + lease
}

// Claim implements driver.Driver.
func (p *shell) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	return call(ctx, p, func(ctx context.Context) (driver.Claimed, error) {
		return p.Driver.Claim(ctx, req)
	}, func(claimed driver.Claimed) {
		for _, r := range claimed.Records {
			l := driver.LeaseOf(r)
			p.mu.Lock()
			p.runs[l] = claimedRun{r.JobID(), r.RetryInfo.CurrentAttempt}
			p.mu.Unlock()
			p.s.mu.Lock()
			p.s.owners[l.Owner] = p
			p.s.mu.Unlock()
			p.log(simulation.Leased, l, p.untilLeaseEnds)
		}
	})
}

// Extend implements driver.Driver.
func (p *shell) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) ([]driver.Lease, error) {
	return call(ctx, p, func(ctx context.Context) ([]driver.Lease, error) {
		return p.Driver.Extend(ctx, leases, leaseTime)
	}, func(lost []driver.Lease) {
		for _, l := range leases {
			if !slices.Contains(lost, l) {
				p.log(simulation.Renewed, l, p.untilLeaseEnds)
			}
		}
	})
}

// Complete implements driver.Driver.
func (p *shell) Complete(ctx context.Context, ends []driver.Completion) ([]error, error) {
	return call(ctx, p, func(ctx context.Context) ([]error, error) {
		return p.Driver.Complete(ctx, ends)
	}, func(errs []error) {
		for i, end := range ends {
			if errs[i] == nil {
				p.log(simulation.Ended, end.Lease, func(e *simulation.Event) { e.State = driver.StateOf(end.Record, time.Time{}) })
				p.forget(end.Lease)
			}
		}
	})
}

// Release implements driver.Driver.
func (p *shell) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	return call(ctx, p, func(ctx context.Context) ([]error, error) {
		return p.Driver.Release(ctx, handBacks)
	}, func(errs []error) {
		for i, h := range handBacks {
			if errs[i] == nil {
				p.log(simulation.Unleased, h.Lease, nil)
				p.forget(h.Lease)
			}
		}
	})
}

func (p *shell) forget(l driver.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, l)
}

// Retry implements driver.Driver.
func (p *shell) Retry(ctx context.Context, ended, next *driver.Record) error {
	return p.replace(ctx, func(ctx context.Context) error {
		return p.Driver.Retry(ctx, ended, next)
	}, simulation.Event{Kind: simulation.Replaced, Job: ended.JobID(), Attempt: ended.RetryInfo.CurrentAttempt})
}

// EndRetry implements driver.Driver.
func (p *shell) EndRetry(ctx context.Context, ended *driver.Record) error {
	return p.replace(ctx, func(ctx context.Context) error {
		return p.Driver.EndRetry(ctx, ended)
	}, simulation.Event{Kind: simulation.Ended, Job: ended.JobID(), Attempt: ended.RetryInfo.CurrentAttempt, State: amboy.StateFailed})
}

func (p *shell) replace(ctx context.Context, do func(context.Context) error, e simulation.Event) error {
	e.Process = p.index
	_, err := call(ctx, p, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, do(ctx)
	}, func(struct{}) { p.s.log(e) })
	return err
}

// RecoverStale implements driver.Driver.
func (p *shell) RecoverStale(ctx context.Context, keep ...driver.Lease) (int, error) {
	return call(ctx, p, func(ctx context.Context) (int, error) {
		return p.Driver.RecoverStale(ctx, keep...)
	}, func(int) {})
}

// producer puts jobs and runs none.
type producer struct {
	s     *shells
	queue amboy.RetryableQueue
	made  int
	edges []string
}

// claimless is a process that never claims.
type claimless struct{ *shell }

// Claim implements driver.Driver.
func (claimless) Claim(context.Context, driver.ClaimRequest) (driver.Claimed, error) {
	return driver.Claimed{}, nil
}

func (s *shells) newProducer() *producer {
	return &producer{s: s, queue: s.newQueue(claimless{s.newShell(simulation.Store)}, 1)}
}

func (p *producer) close() { p.queue.Close(context.Background()) }

// put puts some jobs.
func (p *producer) put(n int) {
	for range n {
		task := p.task()
		p.s.turn <- struct{}{}
		p.s.mu.Lock()
		p.s.tasks[task.ID] = task
		p.s.checker.Expect(task)
		p.s.mu.Unlock()
		err := p.queue.Put(context.Background(), newScripted(task))
		e := simulation.Event{Process: simulation.Store, Kind: simulation.Accepted, Job: task.ID}
		if err != nil {
			require.True(p.s.t, amboy.IsDuplicateJobScopeError(err), "%v", err)
			e.Kind = simulation.Refused
		} else {
			p.edges = append(p.edges, task.ID)
		}
		p.s.log(e)
		<-p.s.turn
	}
}

func (p *producer) task() *simulation.Task {
	s := p.s
	p.made++
	t := &simulation.Task{
		ID: fmt.Sprintf("j%d", p.made), Attempts: 1, Priority: s.upTo(3),
		Lasts: time.Duration(s.upTo(int(lease / 4))),
	}
	if s.upTo(8) == 0 {
		t.Lasts = time.Duration(s.upTo(int(2 * lease)))
	}
	if s.upTo(3) == 0 {
		t.Attempts = 2 + s.upTo(2)
		t.Failures = s.upTo(t.Attempts + 1)
		t.Backoff = time.Duration(s.upTo(2)) * time.Second
	}
	switch s.upTo(6) {
	case 0:
		t.Scopes = []string{fmt.Sprint("s", s.upTo(3))}
	case 1:
		t.Scopes = []string{fmt.Sprint("e", s.upTo(3))}
		t.EnqueueScopes = t.Scopes
	case 2:
		if last := len(p.edges) - 1; last >= 0 {
			t.Edges = []string{p.edges[max(0, last-s.upTo(10))]}
		}
	}
	return t
}

// scripted is a job that does a task.
type scripted struct {
	job.Base `bson:"job_base" json:"job_base"`
}

var scriptedType = amboy.JobType{Name: "simulation scripted", Version: 1}

func init() {
	registry.AddJobType(scriptedType.Name, func() amboy.Job { return &scripted{Base: job.Base{JobType: scriptedType}} })
}

func newScripted(t *simulation.Task) *scripted {
	j := &scripted{Base: job.Base{JobType: scriptedType}}
	j.SetID(t.ID)
	j.SetPriority(t.Priority)
	j.SetScopes(t.Scopes)
	if len(t.EnqueueScopes) > 0 {
		j.SetEnqueueScopes(t.EnqueueScopes...)
	}
	for _, edge := range t.Edges {
		if err := j.Dependency().AddEdge(edge); err != nil {
			panic(err)
		}
	}
	if t.Attempts > 1 {
		retryable := true
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable, MaxAttempts: &t.Attempts, WaitUntil: &t.Backoff})
	}
	return j
}

var errScript = errors.New("scripted failure")

// Run implements amboy.Job.
func (j *scripted) Run(ctx context.Context) {
	defer j.MarkComplete()
	s, status := running, j.Status()
	s.mu.Lock()
	task, p := s.tasks[j.ID()], s.owners[status.Owner]
	s.mu.Unlock()
	log := func(k simulation.Kind) {
		s.log(simulation.Event{
			Process: p.index, Kind: k, Job: j.ID(), Attempt: j.RetryInfo().CurrentAttempt, Lease: status.ModificationCount,
		})
	}
	if p.isDead() {
		return
	}
	log(simulation.Began)
	timer := time.NewTimer(task.Lasts)
	defer timer.Stop()
	select {
	case <-p.dead:
		return
	case <-ctx.Done():
		log(simulation.ContextEnded)
		j.AddRetryableError(context.Cause(ctx))
		return
	case <-timer.C:
	}
	log(simulation.Returned)
	switch attempt := j.RetryInfo().CurrentAttempt; {
	case attempt >= task.Failures:
	case task.Attempts > 1:
		j.AddRetryableError(errScript)
	default:
		j.AddError(errScript)
	}
}
