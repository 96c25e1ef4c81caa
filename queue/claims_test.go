package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

var errCut = errors.New("the store can't be reached")

// spy is a driver that counts the calls on it, and lets a test intercept them.
type spy struct {
	driver.Driver
	// deaf makes the driver send no change notifications. durable makes it declare that
	// its writes take time.
	deaf, durable bool
	// noNextAttempts makes it declare that Complete takes no next attempt.
	noNextAttempts bool
	// costly makes it declare that claims are costly.
	costly bool
	// before is called with the name of each call. If it returns an error, the call
	// returns that error and is not made.
	before atomic.Pointer[func(ctx context.Context, call string) error]
	// claimed is called with the result of each claim, before the caller gets it.
	claimed atomic.Pointer[func(driver.ClaimRequest, driver.Claimed)]

	mu    sync.Mutex
	calls map[string]int
}

func newSpy(d driver.Driver) *spy { return &spy{Driver: d, calls: map[string]int{}} }

func (d *spy) note(ctx context.Context, call string) error {
	d.mu.Lock()
	d.calls[call]++
	d.mu.Unlock()
	if before := d.before.Load(); before != nil {
		return (*before)(ctx, call)
	}
	return nil
}

// count returns the number of calls with these names, or of all calls if no name is
// given.
func (d *spy) count(calls ...string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for call, times := range d.calls {
		if len(calls) == 0 || slices.Contains(calls, call) {
			n += times
		}
	}
	return n
}

// reset sets all counts to zero.
func (d *spy) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.calls)
}

// fail makes the named calls fail, or all calls if no name is given.
func (d *spy) fail(calls ...string) {
	d.do(func(_ context.Context, call string) error {
		if len(calls) == 0 || slices.Contains(calls, call) {
			return errCut
		}
		return nil
	})
}

// hangOnce makes the next call with a name hang until its context ends, as on a connection that is
// dead without an error.
func (d *spy) hangOnce(call string) {
	var hung atomic.Bool
	d.do(func(ctx context.Context, name string) error {
		if name != call || hung.Swap(true) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

func (d *spy) do(before func(ctx context.Context, call string) error) { d.before.Store(&before) }
func (d *spy) heal()                                                  { d.before.Store(nil) }

func (d *spy) Features() driver.Features {
	features := d.Driver.Features()
	features.Notifications = features.Notifications && !d.deaf
	features.Durable, features.CostlyClaims = d.durable, d.costly
	features.NextAttempts = features.NextAttempts && !d.noNextAttempts
	return features
}

func (d *spy) Subscribe(notify func(driver.Change)) (cancel func()) {
	if d.deaf {
		return func() {}
	}
	return d.Driver.Subscribe(notify)
}

func (d *spy) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	if err := d.note(ctx, "Insert"); err != nil {
		return nil, err
	}
	return d.Driver.Insert(ctx, records)
}

func (d *spy) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	if err := d.note(ctx, "Claim"); err != nil {
		return driver.Claimed{}, err
	}
	req.Queues = slices.Clone(req.Queues)
	claimed, err := d.Driver.Claim(ctx, req)
	if after := d.claimed.Load(); after != nil {
		(*after)(req, claimed)
	}
	return claimed, err
}

func (d *spy) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) ([]driver.Lease, error) {
	if err := d.note(ctx, "Extend"); err != nil {
		return nil, err
	}
	return d.Driver.Extend(ctx, leases, leaseTime)
}

func (d *spy) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	if err := d.note(ctx, "Complete"); err != nil {
		return nil, err
	}
	return d.Driver.Complete(ctx, completions)
}

func (d *spy) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	if err := d.note(ctx, "Release"); err != nil {
		return nil, err
	}
	return d.Driver.Release(ctx, handBacks)
}

func (d *spy) Retry(ctx context.Context, ended, next *driver.Record) error {
	if err := d.note(ctx, "Retry"); err != nil {
		return err
	}
	return d.Driver.Retry(ctx, ended, next)
}

func (d *spy) EndRetry(ctx context.Context, ended *driver.Record) error {
	if err := d.note(ctx, "EndRetry"); err != nil {
		return err
	}
	return d.Driver.EndRetry(ctx, ended)
}

func (d *spy) CancelRequests(ctx context.Context, owner string) ([]driver.Lease, error) {
	if err := d.note(ctx, "CancelRequests"); err != nil {
		return nil, err
	}
	return d.Driver.CancelRequests(ctx, owner)
}

func (d *spy) Get(ctx context.Context, name, id string) (*driver.Record, error) {
	if err := d.note(ctx, "Get"); err != nil {
		return nil, err
	}
	return d.Driver.Get(ctx, name, id)
}

func (d *spy) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	if err := d.note(ctx, "Find"); err != nil {
		return driver.Page{}, err
	}
	return d.Driver.Find(ctx, q, page)
}

func (d *spy) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	if err := d.note(ctx, "Count"); err != nil {
		return 0, err
	}
	return d.Driver.Count(ctx, q, limit)
}

func (d *spy) Stats(ctx context.Context, name string) (amboy.QueueStats, error) {
	if err := d.note(ctx, "Stats"); err != nil {
		return amboy.QueueStats{}, err
	}
	return d.Driver.Stats(ctx, name)
}

func (d *spy) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	if err := d.note(ctx, "Queues"); err != nil {
		return nil, err
	}
	return d.Driver.Queues(ctx, req)
}

func (d *spy) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	if err := d.note(ctx, "CountTypes"); err != nil {
		return nil, err
	}
	return d.Driver.CountTypes(ctx)
}

func (d *spy) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	if err := d.note(ctx, "OldestReady"); err != nil {
		return nil, err
	}
	return d.Driver.OldestReady(ctx, queues, now)
}

func (d *spy) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	if err := d.note(ctx, "Work"); err != nil {
		return driver.Work{}, err
	}
	return d.Driver.Work(ctx, now)
}

func (d *spy) Unfinished(ctx context.Context) ([]string, error) {
	if err := d.note(ctx, "Unfinished"); err != nil {
		return nil, err
	}
	return d.Driver.Unfinished(ctx)
}

func (d *spy) RecoverStale(ctx context.Context, keep ...driver.Lease) (int, error) {
	if err := d.note(ctx, "RecoverStale"); err != nil {
		return 0, err
	}
	return d.Driver.RecoverStale(ctx, keep...)
}

func (d *spy) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := d.note(ctx, "Forget"); err != nil {
		return 0, err
	}
	return d.Driver.Forget(ctx, now, limit)
}

func (d *spy) Prune(ctx context.Context, req driver.PruneRequest) (int, error) {
	if err := d.note(ctx, "Prune"); err != nil {
		return 0, err
	}
	return d.Driver.Prune(ctx, req)
}

func (d *spy) Control(ctx context.Context, name string, change driver.ControlChange) (driver.Control, error) {
	if err := d.note(ctx, "Control"); err != nil {
		return driver.Control{}, err
	}
	return d.Driver.Control(ctx, name, change)
}

func (d *spy) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	if err := d.note(ctx, "TakeDuty"); err != nil {
		return false, err
	}
	return d.Driver.TakeDuty(ctx, duty, now)
}

// starts records the order in which jobs start.
type starts struct {
	t *testing.T
	journal
}

// lasting returns a job that runs for d, or until its context ends.
func (s *starts) lasting(id string, d time.Duration) *funcJob {
	return newJob(s.t, id, func(ctx context.Context, _ *funcJob) {
		s.add(id)
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	})
}

// putAll puts n jobs named prefix0, prefix1 and so on in one call.
func (s *starts) putAll(q amboy.Queue, prefix string, n int, d time.Duration) {
	s.t.Helper()
	var jobs []amboy.Job
	for _, id := range ids(prefix, n) {
		jobs = append(jobs, s.lasting(id, d))
	}
	require.NoError(s.t, q.PutMany(s.t.Context(), jobs))
}

// Each claim used to ask for all open queues, so a job of one tenant took longer the more
// of them were open.
func TestClaimsDoNotGrowWithTheOpenQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		group := newDriverGroup(t, store, nil)
		for _, name := range ids("idle", 100) {
			open(t, group, name)
		}
		busy := open(t, group, "busy")
		synctest.Wait()
		asked := 0
		claimed := func(req driver.ClaimRequest, _ driver.Claimed) { asked += len(req.Queues) }
		store.claimed.Store(&claimed)
		for _, id := range ids("job", 10) {
			put(t, busy, noop(t, id))
			synctest.Wait()
		}
		assert.Positive(t, asked)
		assert.LessOrEqual(t, asked, 3*10, "queues asked for")
	})
}

// TestQuietQueueGetsTheNextFreeWorker floods another queue of the group with long jobs.
func TestQuietQueueGetsTheNextFreeWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) {
			o.Workers = 4
			o.DefaultQueue.NumWorkers = 4
		})
		flooded, quiet := open(t, group, "flooded"), open(t, group, "quiet")
		s := &starts{t: t}
		for i := range 4 { // one ends each minute
			put(t, flooded, s.lasting(fmt.Sprint("first", i), time.Duration(i+1)*time.Minute))
		}
		synctest.Wait()
		s.putAll(flooded, "more", 100, time.Hour)
		pass(30 * time.Second)
		put(t, quiet, s.lasting("quiet", time.Second))
		pass(29 * time.Second)
		assert.Len(t, s.all(), 4, "all workers are busy")
		pass(2 * time.Second)
		assert.Equal(t, []string{"quiet"}, s.all()[4:5], "the quiet queue did not get the first free worker")
	})
}

func TestAFreeWorkerServesTheQueueWithFewestRunningJobs(t *testing.T) {
	t.Run("in turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) { o.Workers = 1 })
			s := &starts{t: t}
			blocker, started, release := holder(t, "blocker")
			put(t, open(t, group, "z"), blocker)
			<-started
			for _, name := range []string{"a", "b", "c"} {
				s.putAll(open(t, group, name), name, 3, time.Second)
			}
			release()
			pass(time.Minute)
			order := s.all()
			require.Len(t, order, 9)
			for turn := range slices.Chunk(order, 3) {
				slices.Sort(turn)
			}
			assert.Equal(t, []string{"a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"}, order)
		})
	})
	t.Run("fewest first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) {
				o.Workers = 3
				o.DefaultQueue.NumWorkers = 3
			})
			s := &starts{t: t}
			many, few := open(t, group, "many"), open(t, group, "few")
			put(t, many, s.lasting("m0", time.Hour), s.lasting("m1", time.Hour))
			synctest.Wait()
			put(t, few, s.lasting("f0", time.Minute)) // the queue that was served last
			synctest.Wait()
			s.putAll(many, "m more", 2, time.Hour)
			s.putAll(few, "f more", 2, time.Hour)
			pass(2 * time.Minute)
			assert.Equal(t, []string{"f more0"}, s.all()[3:], "the queue with no running job comes before the queue with two")
		})
	})
}

func TestNumWorkersCapsTheShareOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) {
			o.Workers = 5
			o.DefaultQueue.NumWorkers = 2
		})
		s := &starts{t: t}
		s.putAll(open(t, group, "one"), "one", 10, time.Hour)
		synctest.Wait()
		assert.Len(t, s.all(), 2)
		for _, name := range []string{"two", "three"} {
			s.putAll(open(t, group, name), name, 10, time.Hour)
		}
		synctest.Wait()
		assert.Len(t, s.all(), 5)
	})
}

// TestOneClaimServesAllQueues inserts one job into each of many queues in one call, as
// another process.
func TestOneClaimServesAllQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tenants = 200
		store := newStore(t)
		counted := newSpy(store)
		group := newDriverGroup(t, counted, nil)
		s := &starts{t: t}
		var records []*driver.Record
		for _, name := range ids("tenant", tenants) {
			open(t, group, name)
			records = append(records, recordOf(t, name, s.lasting(name, time.Hour)))
		}
		synctest.Wait()
		counted.reset()
		most := 0
		after := func(_ driver.ClaimRequest, claimed driver.Claimed) { most = max(most, len(claimed.Records)) }
		counted.claimed.Store(&after)
		_, err := store.Insert(t.Context(), records)
		require.NoError(t, err)
		synctest.Wait()
		assert.Len(t, s.all(), tenants)
		assert.Equal(t, tenants, most)
		assert.LessOrEqual(t, counted.count("Claim"), 3)
	})
}

// TestAThousandIdleTenantsCostAsMuchAsOne keeps a thousand idle queues open for an hour.
func TestAThousandIdleTenantsCostAsMuchAsOne(t *testing.T) {
	for name, deaf := range map[string]bool{"notified": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const tenants, perSecond = 1000, 5
				counted := newSpy(newStore(t))
				counted.deaf = deaf
				group := newDriverGroup(t, counted, func(o *queue.DriverGroupOptions) {
					o.DefaultQueue.LockTimeout = 0 // the defaults
					o.DefaultQueue.NumWorkers = 1
				})
				for _, name := range ids("tenant", tenants) {
					open(t, group, name)
				}
				pass(time.Minute)
				counted.reset()
				const observed = 5 * time.Minute
				pass(observed)
				calls := counted.count()
				t.Logf("%d calls in %s: %v", calls, observed, counted.calls)
				assert.LessOrEqual(t, calls, perSecond*int(observed.Seconds()))
				assert.Positive(t, counted.count("RecoverStale"))
				if !deaf {
					assert.LessOrEqual(t, counted.count("Claim"), int(observed/(15*time.Second)), "one check of all queues, in case a notification was lost")
				}
			})
		})
	}
}

// TestQueueClosedDuringAClaimForIt lets a worker of one of two queues claim for both, and
// closes one of them before the claim returns.
func TestQueueClosedDuringAClaimForIt(t *testing.T) {
	for name, order := range map[string][]string{
		"claimed by a worker of the other queue": {"goes", "stays"}, // the queue that was opened last comes first
		"claimed by its own worker":              {"stays", "goes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				blocked := newSpy(store)
				group := newDriverGroup(t, blocked, func(o *queue.DriverGroupOptions) {
					o.DefaultQueue.NumWorkers = 1
					o.BackgroundCreateFrequency = queue.NoBackgroundCreate
				})
				queues := map[string]amboy.Queue{}
				for _, name := range order {
					queues[name] = open(t, group, name)
				}
				synctest.Wait()
				answer := make(chan struct{})
				var once sync.Once
				after := func(_ driver.ClaimRequest, claimed driver.Claimed) {
					if len(claimed.Records) == 2 {
						once.Do(func() { <-answer })
					}
				}
				blocked.claimed.Store(&after)
				s := &starts{t: t}
				_, err := store.Insert(t.Context(), []*driver.Record{
					recordOf(t, "stays", s.lasting("one", time.Minute)), recordOf(t, "goes", s.lasting("two", time.Minute)),
				})
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, 1, queues["goes"].Stats(t.Context()).Running, "it is claimed")

				var closing sync.WaitGroup
				closing.Go(func() { queues["goes"].Close(t.Context()) })
				synctest.Wait()
				close(answer)
				closing.Wait()
				synctest.Wait()
				assert.Equal(t, []string{"one"}, s.all())
				stats, err := store.Stats(t.Context(), "goes")
				require.NoError(t, err)
				assert.Equal(t, 1, stats.Pending, "not handed back at once: %s", stats)
				require.True(t, amboy.Wait(day(t), queues["stays"]))
			})
		})
	}
}

// TestQueueClosedWhileItsExpiredJobsAreClaimed closes a queue between the expiry of one
// of its jobs and the claim that finds the expired job, while all workers are busy.
func TestQueueClosedWhileItsExpiredJobsAreClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		blocked := newSpy(store)
		group := newDriverGroup(t, blocked, func(o *queue.DriverGroupOptions) {
			o.DefaultQueue.NumWorkers = 1
			o.BackgroundCreateFrequency = queue.NoBackgroundCreate
		})
		goes := open(t, group, "goes")
		s := &starts{t: t}
		put(t, goes, s.lasting("busy", time.Minute))
		synctest.Wait()
		late := s.lasting("late", time.Minute)
		late.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Second)})
		put(t, goes, late)

		answer := make(chan struct{})
		after := func(_ driver.ClaimRequest, claimed driver.Claimed) {
			if len(claimed.Records) > 0 {
				<-answer
			}
		}
		blocked.claimed.Store(&after)
		pass(2 * time.Second)
		goes.Close(t.Context())
		close(answer)
		synctest.Wait()
		stats, err := store.Stats(t.Context(), "goes")
		require.NoError(t, err)
		assert.Zero(t, stats.Running, "the job does not run, and can't be claimed: %s", stats)
	})
}

type pruner interface{ Prune(context.Context) error }

// tenants is a group of queues under stress. Its jobs count how many of them run at once.
type tenants struct {
	t       *testing.T
	group   amboy.QueueGroup
	names   []string
	checker *checker

	mu     sync.Mutex
	queues map[string]amboy.Queue

	all    atomic.Int64
	byName sync.Map // name to *atomic.Int64

	once   sync.Once
	enough chan struct{} // closed when half of the jobs were accepted
}

// The stress on a group of tenants.
const (
	tenantsWorkers = 8 // in all
	tenantWorkers  = 3 // of each
	tenantPutters  = 8
)

// tenantPuts is the number of jobs of each putter.
func tenantPuts() int { return stressed(150, 60) }

// enter counts a running job.
func (s *tenants) enter(name string) (leave func()) {
	counter, _ := s.byName.LoadOrStore(name, &atomic.Int64{})
	own := counter.(*atomic.Int64)
	if n := own.Add(1); n > tenantWorkers {
		s.checker.faultf("%d jobs of %q run at once", n, name)
	}
	if n := s.all.Add(1); n > tenantsWorkers {
		s.checker.faultf("%d jobs run at once", n)
	}
	return func() {
		own.Add(-1)
		s.all.Add(-1)
	}
}

// newJob returns a random job.
func (s *tenants) newJob(random *rand.Rand, name, id string) *funcJob {
	conduct := random.IntN(8)
	j := newJob(s.t, id, func(_ context.Context, j *funcJob) {
		defer s.enter(name)()
		attempt := j.RetryInfo().CurrentAttempt
		s.checker.begin(id, attempt, j.Scopes())
		defer s.checker.finish(id, j.Scopes())
		for range 20 {
			runtime.Gosched()
		}
		switch {
		case conduct == 0:
			j.AddError(errors.New("failed"))
		case conduct == 1:
			panic("as planned")
		case conduct == 2 && attempt == 0:
			s.checker.retry(id)
			j.AddRetryableError(errors.New("once more"))
		}
	})
	if conduct == 2 {
		retryable(j, 2)
	}
	for _, scope := range []string{"red", "green"} {
		if random.IntN(6) == 0 {
			j.SetScopes(append(j.Scopes(), name+" "+scope))
		}
	}
	j.SetPriority(random.IntN(3))
	switch random.IntN(16) {
	case 0:
		j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Millisecond)})
	case 1:
		j.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Millisecond)})
	}
	return j
}

// put puts jobs for random tenants, a third of them for the first, until it has put all
// of its own or the group is closed.
func (s *tenants) put(ctx context.Context, random *rand.Rand, putter int) {
	for i := range tenantPuts() {
		name := s.names[0]
		if random.IntN(3) > 0 {
			name = s.names[random.IntN(len(s.names))]
		}
		q, err := s.group.Get(ctx, name)
		if errors.Is(err, queue.ErrGroupClosed) {
			return
		}
		if err != nil {
			s.checker.faultf("getting queue %q: %v", name, err)
			return
		}
		s.mu.Lock()
		s.queues[name] = q
		s.mu.Unlock()
		j := s.newJob(random, name, fmt.Sprintf("%d-%d", putter, i))
		s.checker.offer(j.ID(), !j.TimeInfo().DispatchBy.IsZero())
		err = q.Put(ctx, j)
		s.checker.answer(j.ID(), err)
		if s.checker.accepted.Load() >= int64(tenantPutters*tenantPuts()/2) {
			s.once.Do(func() { close(s.enough) })
		}
		switch {
		case err == nil && random.IntN(8) == 0:
			if amboy.WaitJob(ctx, j, q) {
				s.checker.end(j.ID())
			}
		case err == nil:
		case errors.Is(err, amboy.ErrQueueClosed):
			return
		default:
			s.checker.faultf("putting job %q: %v", j.ID(), err)
		}
	}
}

// settle checks the checker's records once the group is closed.
func (s *tenants) settle(ctx context.Context) {
	var stats amboy.QueueStats
	var infos []amboy.JobInfo
	for _, q := range s.queues {
		one := q.Stats(ctx)
		stats.Pending += one.Pending
		stats.Running += one.Running
		stats.Completed += one.Completed
		stats.Total += one.Total
		for info := range q.JobInfo(ctx) {
			infos = append(infos, info)
		}
	}
	s.checker.settle(stats, infos)
	s.t.Logf("offered %d, accepted %d, %s", s.checker.offered.Load(), s.checker.accepted.Load(), stats.String())
}

func TestStressOnTenants(t *testing.T) {
	for name, test := range map[string]struct{ halfway, atOnce, durable bool }{
		"until all is done":          {},
		"until all is done, durable": {durable: true},
		"and close":                  {halfway: true},
		"and close, durable":         {halfway: true, durable: true},
		"and close at once":          {halfway: true, atOnce: true},
		"and close at once, durable": {halfway: true, atOnce: true, durable: true},
	} {
		run := func(t *testing.T) {
			ctx := within(t)
			seed := rand.Uint64()
			store := newSpy(newStore(t))
			store.durable = test.durable
			s := &tenants{
				t:       t,
				names:   ids("tenant", 50),
				checker: &checker{},
				queues:  map[string]amboy.Queue{},
				enough:  make(chan struct{}),
				group: newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
					o.Workers = tenantsWorkers
					o.DefaultQueue.NumWorkers = tenantWorkers
				}),
			}
			var putters sync.WaitGroup
			for i := range tenantPutters {
				putters.Go(func() { s.put(ctx, rand.New(rand.NewPCG(seed, uint64(i))), i) })
			}
			if test.halfway {
				select {
				case <-s.enough:
				case <-ctx.Done():
				}
			} else {
				putters.Wait()
				for _, q := range s.queues {
					amboy.Wait(ctx, q)
				}
			}
			patience := ctx
			if test.atOnce {
				patience = ended()
			}
			require.NoError(t, s.group.Close(patience))
			putters.Wait()
			require.NoError(t, ctx.Err(), "the test took too long")
			s.settle(ctx)
			assert.Empty(t, s.checker.found(), "seed %d", seed)
		}
		t.Run(name, func(t *testing.T) {
			if !test.atOnce {
				run(t)
				return
			}
			// On a busy machine the second that Close has may be too short, so its time is fake.
			synctest.Test(t, run)
		})
	}
}

// A queue of the memory driver made all others claim once per millisecond when one of its jobs
// became due and no process served it.
func TestADueJobOfAnUnservedQueueMadeOthersClaimWithoutEnd(t *testing.T) {
	for name, amend := range map[string]func(*driver.Record){
		"due":     func(r *driver.Record) { r.TimeInfo.WaitUntil = time.Now().Add(time.Second) },
		"expired": func(r *driver.Record) { r.TimeInfo.DispatchBy = time.Now().Add(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				q := startEngine(t, store, 1)
				defer q.Close(ended())
				unserved := recordOf(t, "unserved", noop(t, "unserved"))
				amend(unserved)
				insertRecord(t, store, unserved)
				pass(2 * time.Second)
				store.reset()
				put(t, q, noop(t, "served"))
				pass(time.Minute)
				assert.LessOrEqual(t, store.count("Claim"), 10)
			})
		})
	}
}
