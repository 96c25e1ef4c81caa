package drivertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// historyBudget is the time after which no more histories are begun, so that a
// slow store does not take minutes.
const historyBudget = 10 * time.Second

// runHistories does random things to drivers and to the model, and compares
// what comes of it. The first history that fails is the last.
func runHistories(t *testing.T, open func(t *testing.T) driver.Driver) {
	histories, steps := 200, 40
	if testing.Short() {
		histories = 25
	}
	begin := time.Now()
	for seed := range histories {
		if time.Since(begin) > historyBudget {
			t.Logf("%d of %d histories were run in %s", seed, histories, historyBudget)
			return
		}
		passed := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h := newHistory(newFixture(t, open), uint64(seed))
			for range steps {
				h.step()
				h.compare()
			}
		})
		if !passed {
			return
		}
	}
}

// history is a sequence of random calls.
type history struct {
	*fixture
	model  *model
	random *rand.Rand
	// clock is when claims are made. It is in the middle of an hour, and other
	// times are whole hours after the start, so that no two are close.
	clock time.Time
	stale []*driver.Record // under leases that were lost
	added int
}

func newHistory(f *fixture, seed uint64) *history {
	f.unchecked = true // it is compared with the model
	return &history{
		fixture: f,
		model:   newModel(),
		random:  rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // It chooses cases, not secrets.
		clock:   f.after(0.5),
	}
}

// step makes one call. The more often an action is listed the likelier it is.
func (h *history) step() {
	actions := []func(){
		h.insertSome, h.insertSome, h.insertSome,
		h.claimSome, h.claimSome, h.claimSome, h.claimSome,
		h.endOne, h.endOne, h.endOne,
		h.endByHand,
		h.releaseOne,
		h.retryOne, h.retryOne,
		h.endRetryOne,
		h.extendOne,
		h.recoverSome,
		h.saveOne,
		h.writeStale,
		h.advance,
	}
	actions[h.random.IntN(len(actions))]()
}

// pick chooses one of several, and false where there is none.
func pick[T any](random *rand.Rand, from []T) (chosen T, ok bool) {
	if len(from) == 0 {
		return chosen, false
	}
	return from[random.IntN(len(from))], true
}

// subset chooses some of the names.
func (h *history) subset(names []string, probability float64) []string {
	var chosen []string
	for _, name := range names {
		if h.random.Float64() < probability {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

// soon is no time, or a whole number of hours after the clock.
func (h *history) soon(probability float64) time.Time {
	if h.random.Float64() >= probability {
		return time.Time{}
	}
	return h.clock.Add(time.Duration(h.random.IntN(3))*time.Hour + 30*time.Minute)
}

var historyScopes = []string{"s0", "s1", "s2", "s3"}

// randomSpec describes a job, whose edges may name nobody, or the job itself.
// Unless it is to be a new one, its ID may be taken.
func (h *history) randomSpec(isNew bool) spec {
	id := 1 + h.random.IntN(h.added+1)
	if isNew {
		h.added++
		id = h.added
	}
	s := spec{
		id:        fmt.Sprint(id),
		priority:  h.random.IntN(3),
		waitUntil: h.soon(0.2),
		scopes:    h.subset(historyScopes, 0.25),
		retryable: h.random.IntN(3) == 0,
	}
	s.enqueueScopes = h.subset(s.scopes, 0.3)
	if s.waitUntil.IsZero() {
		s.dispatchBy = h.soon(0.15)
	}
	for range h.random.IntN(9) / 4 {
		edge := fmt.Sprint(h.random.IntN(h.added + 1))
		if !slices.Contains(s.edges, edge) {
			s.edges = append(s.edges, edge)
		}
	}
	return s
}

func (h *history) insertSome() {
	var specs []spec
	var records []*driver.Record
	n := 1 + h.random.IntN(3)
	for range n {
		s := h.randomSpec(n > 1 || h.random.IntN(3) > 0)
		specs, records = append(specs, s), append(records, h.record(s))
	}
	h.Logf("insert %+v", specs)
	errs, err := h.driver.Insert(h.ctx, records)
	require.NoError(h, err)
	require.Len(h, errs, len(specs))
	for i, s := range specs {
		if h.wasRefused(errs[i], h.model.refusals(s)) {
			continue
		}
		h.model.add(s, records[i])
	}
}

// wasRefused compares an error with the reasons for one, and tells whether there
// is a reason.
func (h *history) wasRefused(err error, reasons []func(error) bool) bool {
	h.Helper()
	if len(reasons) == 0 {
		require.NoError(h, err)
		return false
	}
	require.Error(h, err)
	isReason := func(reason func(error) bool) bool { return reason(err) }
	require.True(h, slices.ContainsFunc(reasons, isReason), "the reason is not that: %v", err)
	return true
}

func isError[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func (h *history) claimSome() {
	limit, by := h.random.IntN(4), fmt.Sprint("owner", h.random.IntN(2))
	h.Logf("claim %d at %s by %s", limit, h.clock, by)
	got, err := h.driver.Claim(h.ctx, driver.ClaimRequest{Owner: by, Limit: limit, Now: h.clock})
	require.NoError(h, err)
	expired, claimed := h.model.claim(h.clock, limit, by)
	var pastNames, names, gotPast, gotNames []string
	for _, j := range expired {
		pastNames = append(pastNames, j.record.Name)
	}
	for _, j := range claimed {
		names = append(names, j.record.Name)
	}
	for _, r := range got.Records {
		j := h.model.byID[r.JobID()]
		require.NotNil(h, j, "record %q was claimed, which is not there", r.Name)
		if j.expired {
			gotPast = append(gotPast, r.Name)
		} else {
			gotNames = append(gotNames, r.Name)
		}
		j.record = r
	}
	require.ElementsMatch(h, pastNames, gotPast, "the records that have expired")
	require.Equal(h, names, gotNames, "the records that may run, in their order")
	h.compareClaimed(append(expired, claimed...))
	h.compareNext(h.model.next(h.clock), got.Next)
}

func (h *history) compareClaimed(jobs []*modelJob) {
	h.Helper()
	for _, j := range jobs {
		require.Equal(h, j.lease, driver.LeaseOf(j.record))
		require.ElementsMatch(h, j.failed, j.record.Dependency.Failed, "the failed edges of job %q", j.id)
		require.True(h, j.record.Status.InProgress)
	}
}

func (h *history) compareNext(want, got time.Time) {
	h.Helper()
	if want.IsZero() {
		require.Zero(h, got, "there is no time to wait for")
		return
	}
	require.True(h, got.After(h.clock), "next is %s, which is not after %s", got, h.clock)
	require.False(h, got.After(want.Add(time.Millisecond)), "next is %s, which is after %s", got, want)
}

// endings are those of a job that ran.
var endings = []amboy.JobState{
	amboy.StateSucceeded, amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateRetrying,
}

func (h *history) endOne() {
	j, ok := pick(h.random, h.model.in(running))
	if !ok {
		return
	}
	state := endings[h.random.IntN(len(endings))]
	switch {
	case j.expired:
		state = amboy.StateExpired
	case j.retryable && h.random.IntN(2) == 0:
		state = amboy.StateRetrying
	case !j.retryable && state == amboy.StateRetrying:
		state = amboy.StateFailed
	}
	h.complete(j, j.record, state)
}

func (h *history) endByHand() {
	j, ok := pick(h.random, append(h.model.in(pending), h.model.in(parked)...))
	if ok {
		h.complete(j, h.get(j.id), amboy.StateCanceled)
	}
}

func (h *history) complete(j *modelJob, r *driver.Record, state amboy.JobState) {
	h.Helper()
	h.Logf("complete %q as %s", r.Name, state)
	h.stale = append(h.stale, r)
	j.record = h.end(r, state)
	h.model.end(j, state)
}

func (h *history) releaseOne() {
	j, ok := pick(h.random, h.model.in(running))
	if !ok {
		return
	}
	back := driver.HandBack{Lease: j.lease}
	if !j.expired {
		back.NotBefore, back.Park = h.soon(0.4), h.random.IntN(4) == 0
	}
	h.Logf("release %+v", back)
	h.release(back)
	h.stale = append(h.stale, j.record)
	h.model.release(j, back.NotBefore, back.Park)
}

func (h *history) retryOne() {
	j, ok := pick(h.random, h.model.in(retrying))
	if !ok {
		return
	}
	s := j.spec
	s.waitUntil, s.dispatchBy = h.soon(0.3), time.Time{}
	s.enqueueScopes = h.subset(s.scopes, 0.5)
	next := nextAttempt(j.record)
	next.TimeInfo.WaitUntil, next.EnqueueScopes = s.waitUntil, s.enqueueScopes
	var reasons []func(error) bool
	if h.model.heldByOther(s.id, s.enqueueScopes) {
		reasons = append(reasons, amboy.IsDuplicateJobScopeError)
	}
	h.Logf("retry %q as %+v", j.record.Name, s)
	if !h.wasRefused(h.tryRetry(j.record, next), reasons) {
		h.model.retry(j, s, next)
	}
}

func (h *history) endRetryOne() {
	j, ok := pick(h.random, h.model.in(retrying))
	if !ok {
		return
	}
	state := []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed}[h.random.IntN(2)]
	h.Logf("end the retry of %q as %s", j.record.Name, state)
	require.NoError(h, h.driver.EndRetry(h.ctx, endedRetry(j.record, state)))
	h.model.end(j, state)
}

func (h *history) extendOne() {
	j, ok := pick(h.random, h.model.in(running))
	if !ok {
		return
	}
	h.Logf("extend %+v at %s", j.lease, h.clock)
	require.False(h, h.tryExtend(j.lease, h.clock))
	j.renewed = h.clock
}

func (h *history) recoverSome() {
	before := h.clock.Add(-time.Duration(h.random.IntN(3)) * time.Hour).Add(-time.Minute)
	h.Logf("recover before %s", before)
	for _, j := range h.model.in(running) {
		if j.renewed.Before(before) {
			h.stale = append(h.stale, j.record)
		}
	}
	want := h.model.recover(before)
	got, err := h.driver.RecoverStale(h.ctx, before)
	require.NoError(h, err)
	require.Equal(h, want, got, "the leases that are stale")
}

// saveOne saves the content of a job, from which no state follows.
func (h *history) saveOne() {
	j, ok := pick(h.random, append(h.model.in(pending), h.model.in(running)...))
	if !ok {
		return
	}
	h.Logf("save %q", j.record.Name)
	content := j.spec
	content.note, content.priority, content.enqueueScopes = "saved", j.priority+1, nil
	r := h.record(content)
	r.Name, r.RetryInfo = j.record.Name, j.record.RetryInfo
	require.NoError(h, h.driver.Save(h.ctx, r))
}

// writeStale tries to write under a lease that was lost.
func (h *history) writeStale() {
	r, ok := pick(h.random, h.stale)
	if !ok {
		return
	}
	lease := driver.LeaseOf(r)
	h.Logf("write under the stale lease %+v", lease)
	switch h.random.IntN(3) {
	case 0:
		h.lost(h.tryComplete(lease, ended(r, amboy.StateSucceeded)))
	case 1:
		h.lost(h.tryRelease(driver.HandBack{Lease: lease}))
	default:
		require.True(h, h.tryExtend(lease, h.clock))
	}
}

func (h *history) advance() {
	h.clock = h.clock.Add(time.Duration(1+h.random.IntN(2)) * time.Hour)
	h.Logf("it is %s", h.clock)
}

// compare compares every record of the driver with the model.
func (h *history) compare() {
	h.Helper()
	records := h.list()
	h.agree(records, h.stats())
	require.Len(h, records, len(h.model.attempts))
	for i, j := range h.model.attempts {
		r := records[i]
		require.Equal(h, j.record.Name, r.Name, "record %d in the order of arrival", i)
		require.Contains(h, h.model.states(j, h.clock), stateOf(r), "the state of record %q, whose status is %+v", r.Name, r.Status)
		require.Equal(h, j.lease, driver.LeaseOf(r))
		if h.model.byID[j.id] != j {
			require.Empty(h, r.Scopes, "record %q was replaced", r.Name)
		} else if !j.expired {
			assert.ElementsMatch(h, h.model.held(j.id), r.Scopes, "the scopes of record %q", r.Name)
		}
	}
}
