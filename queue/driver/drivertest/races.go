package drivertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var raceRules = []rule{
	{"one of several concurrent inserts of an ID wins", raceInsert},
	{"one of several concurrent inserts of an enqueue scope wins", raceInsertScope},
	{"each record is claimed once", raceClaim},
	{"a record is either claimed or ended by hand", raceClaimOrComplete},
	{"a record is either ended or recovered", raceCompleteOrRecover},
	{"a record is ended once", raceComplete},
	{"a lease is handed back or recovered once", raceRelease},
	{"a record is retried once", raceRetry},
	{"a scope has one holder", raceScopes},
	{"concurrent claims keep to a limit", raceLimit},
	{"the next attempt takes over a scope without a gap", raceHandOver},
	{"one of several concurrent inserts of a unique key wins", raceUniqueKey},
	{"concurrent claims keep to MaxRunning", raceMaxRunning},
	{"a record is either claimed or canceled", raceClaimOrCancel},
	{"a record ends, canceled or not", raceCompleteOrCancel},
	{"a record canceled while it runs does not await a retry", raceAwaitRetryOrCancel},
	{"a record canceled while it runs does not run again after a hand-back or recovery", raceHandBackOrCancel},
	{"a retry either comes or is canceled", raceRetryOrCancel},
	{"a lease is either renewed or recovered", raceExtendOrRecover},
	{"either a lease is handed back or the record ends", raceReleaseOrComplete},
	{"a record is either restarted or deleted, once", raceRestartOrDelete},
	{"a record is forgotten once", raceForget},
	{"a duty has one owner", raceDuty},
	{"a mark is raised in steps", raceMark},
	{"one of several concurrent new notes is new", raceNotes},
	{"notes that are kept at the same time are all kept", raceKeep},
	{"each of several concurrent replacements of a note replaces another one", raceReplace},
	{"no record is inserted into a queue once it drains", raceDrain},
	{"a record whose edge ends while it is inserted continues", raceInsertOrEnd},
	{"a record whose edge ends while it is restarted continues", raceRestartOrEdgeEnds},
	{"a record whose edge is retried while it is inserted waits for the next attempt", raceInsertOrRetry},
}

// together runs functions at the same time and returns the error of each. They start in a
// random order.
func (f *fixture) together(functions ...func() error) []error {
	f.Helper()
	errs := make([]error, len(functions))
	start := make(chan struct{})
	var running sync.WaitGroup
	for _, i := range rand.Perm(len(functions)) {
		running.Go(func() {
			<-start
			errs[i] = functions[i]()
		})
	}
	close(start)
	running.Wait()
	return errs
}

// raceBudget returns the time after which no more rounds of a race begin.
func raceBudget() time.Duration {
	if *long {
		return time.Second
	}
	return 40 * time.Millisecond
}

// maxRounds is the number of rounds of a race on a fast store.
const maxRounds = 25

// rounds iterates over the rounds of a race.
func rounds(yield func(round int) bool) {
	begin, budget := time.Now(), raceBudget()
	for round := range maxRounds {
		if time.Since(begin) > budget || !yield(round) {
			return
		}
	}
}

// four returns the same function four times.
func four(function func() error) []func() error {
	return []func() error{function, function, function, function}
}

// one requires that one of the errors is nil and that the others satisfy refused.
func (f *fixture) one(errs []error, refused func(error) bool) {
	f.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		require.True(f, refused(err), "the error is %v", err)
	}
	require.Equal(f, 1, won, "one must win")
}

func isLost(err error) bool { return errors.Is(err, driver.ErrLeaseLost) }

func raceInsert(f *fixture) {
	n := 0
	for round := range rounds {
		n++
		r := f.record(spec{id: fmt.Sprint(round)})
		f.one(f.together(four(func() error {
			given := *r
			return every(f.driver.Insert(f.ctx, []*driver.Record{&given}))
		})...), func(err error) bool {
			return amboy.IsDuplicateJobError(err) && !amboy.IsDuplicateJobScopeError(err)
		})
	}
	f.consistent()
	assert.Len(f, f.list(), n)
}

func raceInsertScope(f *fixture) {
	n := 0
	for round := range rounds {
		n++
		scope := []string{fmt.Sprint(round)}
		var racing []func() error
		for i := range 4 {
			r := f.record(spec{id: fmt.Sprintf("%d-%d", round, i), scopes: scope, enqueueScopes: scope})
			racing = append(racing, func() error { return every(f.driver.Insert(f.ctx, []*driver.Record{r})) })
		}
		f.one(f.together(racing...), amboy.IsDuplicateJobScopeError)
	}
	f.consistent()
	assert.Len(f, f.list(), n)
}

// claimAs claims now, for use by several goroutines.
func (f *fixture) claimAs(by string, limit int) ([]*driver.Record, error) {
	claimed, err := f.driver.Claim(f.ctx, f.request(by, time.Now(), limit))
	return claimed.Records, err
}

// tally counts by record what goroutines did.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[name]++
}

// len returns the number of different records.
func (t *tally) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.counts)
}

func raceClaim(f *fixture) {
	const jobs = 60
	specs := make([]spec, jobs)
	for i := range specs {
		specs[i].id = fmt.Sprint(i)
	}
	f.insert(specs...)
	claims := newTally()
	var claimers []func() error
	for i := range 6 {
		claimers = append(claimers, func() error {
			for claims.len() < jobs {
				records, err := f.claimAs(fmt.Sprint(i), 3)
				if err != nil {
					return err
				}
				for _, r := range records {
					claims.add(r.Name)
				}
			}
			return nil
		})
	}
	require.NoError(f, errors.Join(f.together(claimers...)...))
	for name, count := range claims.counts {
		assert.Equal(f, 1, count, "record %q was claimed more than once", name)
	}
	f.consistent()
	assert.Equal(f, jobs, f.stats().Running)
}

func raceClaimOrComplete(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id})
		r := f.get(id)
		var claimed []*driver.Record
		errs := f.together(
			func() (err error) {
				claimed, err = f.claimAs(owner, 1)
				return err
			},
			func() error {
				c := driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateCanceled)}
				return every(f.driver.Complete(f.ctx, []driver.Completion{c}))
			},
		)
		require.NoError(f, errs[0])
		f.consistent()
		if errs[1] == nil {
			require.Empty(f, claimed)
			f.hasState(id, amboy.StateCanceled)
			continue
		}
		f.lost(errs[1])
		require.Equal(f, []string{id}, jobIDs(claimed))
		f.end(claimed[0], amboy.StateSucceeded)
	}
}

func raceCompleteOrRecover(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id, scopes: []string{"s"}})
		r := f.claimOne(id)
		f.endLeases()
		var again []*driver.Record
		errs := f.together(
			func() error {
				c := driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateFailed)}
				return every(f.driver.Complete(f.ctx, []driver.Completion{c}))
			},
			func() error {
				_, err := f.driver.RecoverStale(f.ctx)
				if err == nil {
					again, err = f.claimAs(owner, 1)
				}
				return err
			},
		)
		require.NoError(f, errs[1])
		f.consistent()
		if errs[0] == nil {
			require.Empty(f, again, "the record had ended")
			f.hasState(id, amboy.StateFailed)
			continue
		}
		f.lost(errs[0])
		require.Equal(f, []string{id}, jobIDs(again))
		f.end(again[0], amboy.StateSucceeded)
	}
}

func raceComplete(f *fixture) {
	n := 0
	for round := range rounds {
		n++
		id := fmt.Sprint(round)
		f.insert(spec{id: id})
		r := f.claimOne(id)
		f.one(f.together(four(func() error {
			c := driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded)}
			return every(f.driver.Complete(f.ctx, []driver.Completion{c}))
		})...), isLost)
	}
	f.consistent()
	assert.Equal(f, n, f.stats().Completed)
}

func raceRelease(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint(round)
		f.insert(spec{id: id, scopes: []string{"s"}})
		r := f.claimOne(id)
		f.endLeases()
		release := func() error {
			back := driver.HandBack{Lease: driver.LeaseOf(r), Park: true}
			return every(f.driver.Release(f.ctx, []driver.HandBack{back}))
		}
		recoverOne := func() error {
			n, err := f.driver.RecoverStale(f.ctx)
			if err == nil && n == 0 {
				err = driver.ErrLeaseLost
			}
			return err
		}
		f.one(f.together(release, recoverOne, release, recoverOne), isLost)
		f.consistent()
		f.end(f.get(id), amboy.StateCanceled)
	}
}

func raceRetry(f *fixture) {
	for round := range rounds {
		r := f.retrying(spec{id: fmt.Sprint(round), scopes: []string{"s"}, enqueueScopes: []string{"s"}})
		retry := func() error { return f.driver.Retry(f.ctx, endedRetry(r, amboy.StateFailed), nextAttempt(r)) }
		end := func() error { return f.driver.EndRetry(f.ctx, endedRetry(r, amboy.StateFailed)) }
		errs := f.together(retry, end, retry, end)
		f.one(errs, isLost)
		f.consistent()
		for _, again := range f.claim(10) {
			require.NotEqual(f, errs[0] == nil, errs[2] == nil, "the next attempt came by one retry")
			f.end(again, amboy.StateSucceeded)
		}
	}
}

// holders records which record holds each scope, as seen by the claimers.
type holders struct {
	mu sync.Mutex
	of map[string]string
}

func newHolders() *holders { return &holders{of: map[string]string{}} }

// take registers a claimed record. It returns an error if another record holds one of its
// scopes.
func (h *holders) take(r *driver.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, scope := range r.RequiredScopes {
		if holder, held := h.of[scope]; held {
			return fmt.Errorf("record %q was claimed, while record %q runs under scope %q", r.Name, holder, scope)
		}
		h.of[scope] = r.Name
	}
	return nil
}

// leave deregisters a record before it is written back.
func (h *holders) leave(r *driver.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, scope := range r.RequiredScopes {
		delete(h.of, scope)
	}
}

func raceScopes(f *fixture) {
	const jobs, scopes = 40, 5
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // It chooses cases, not secrets.
	specs := make([]spec, jobs)
	for i := range specs {
		specs[i] = spec{id: fmt.Sprint(i), priority: random.IntN(3)}
		for _, scope := range random.Perm(scopes)[:random.IntN(3)] {
			specs[i].scopes = append(specs[i].scopes, fmt.Sprint(scope))
		}
	}
	f.insert(specs...)
	held, done := newHolders(), newTally()
	var workers []func() error
	for i := range 4 {
		workers = append(workers, func() error { return f.work(fmt.Sprint(i), jobs, held, done) })
	}
	require.NoError(f, errors.Join(f.together(workers...)...))
	for name, count := range done.counts {
		assert.Equal(f, 1, count, "record %q ended more than once", name)
	}
	f.consistent()
	assert.Equal(f, jobs, f.stats().Completed)
}

// work claims records until the given number of jobs has ended. It hands each record back
// once before it ends it.
func (f *fixture) work(by string, jobs int, held *holders, done *tally) error {
	for done.len() < jobs {
		records, err := f.claimAs(by, 2)
		if err != nil {
			return err
		}
		for _, r := range records {
			err = held.take(r)
			if err != nil {
				return err
			}
		}
		for _, r := range records {
			held.leave(r)
			if r.Status.ModificationCount == 1 {
				err = every(f.driver.Release(f.ctx, []driver.HandBack{{Lease: driver.LeaseOf(r)}}))
			} else {
				done.add(r.Name)
				c := driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded)}
				err = every(f.driver.Complete(f.ctx, []driver.Completion{c}))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func raceHandOver(f *fixture) {
	const attempts = 8
	scope := []string{"s"}
	f.insert(spec{id: "job", scopes: scope, enqueueScopes: scope, retryable: true})
	f.insert(spec{id: "waiting", scopes: scope, priority: 9})
	rival := f.record(spec{id: "rival", scopes: scope, enqueueScopes: scope})
	var done atomic.Bool
	errs := f.together(
		func() error {
			defer done.Store(true)
			return f.runAttempts(attempts)
		},
		func() error {
			for !done.Load() {
				if err := every(f.driver.Insert(f.ctx, []*driver.Record{rival})); !amboy.IsDuplicateJobScopeError(err) {
					return fmt.Errorf("another job got the scope, or a call failed: %w", err)
				}
			}
			return nil
		},
	)
	require.NoError(f, errors.Join(errs...))
	f.consistent()
	assert.Equal(f, attempts, f.stats().Completed)
	f.hasState("job", amboy.StateRetrying)
	f.hasState("waiting", amboy.StateBlocked)
}

// runAttempts runs a number of attempts of the only job that may run, and leaves the last
// attempt as retrying.
func (f *fixture) runAttempts(attempts int) error {
	for attempt := range attempts {
		records, err := f.claimAs(owner, 10)
		if err != nil {
			return err
		}
		if len(records) != 1 || records[0].RetryInfo.CurrentAttempt != attempt {
			return fmt.Errorf("attempt %d of the job must be claimed, and nothing else (got %q)", attempt, jobIDs(records))
		}
		r := records[0]
		e := ended(r, amboy.StateRetrying)
		err = every(f.driver.Complete(f.ctx, []driver.Completion{{Lease: driver.LeaseOf(r), Record: e}}))
		if err == nil && attempt < attempts-1 {
			err = f.driver.Retry(f.ctx, endedRetry(e, amboy.StateFailed), nextAttempt(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
