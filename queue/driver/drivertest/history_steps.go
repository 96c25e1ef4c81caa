package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

func (h *history) insertSome() {
	var models []*model
	var specs []spec
	var records []*driver.Record
	n := 1 + h.random.IntN(3)
	for range n {
		m := h.someQueue()
		s := h.randomSpec(m, n > 1 || h.random.IntN(3) > 0)
		models, specs, records = append(models, m), append(specs, s), append(records, h.record(s))
		h.Logf("insert in %q %s", h.queue, s)
	}
	errs, err := h.driver.Insert(h.ctx, records)
	require.NoError(h, err)
	require.Len(h, errs, len(specs))
	for i, s := range specs {
		if h.wasRefused(errs[i], models[i].refusals(s)) {
			continue
		}
		models[i].add(s, records[i])
	}
}

// wasRefused checks that an error is one of the expected reasons, and reports whether a
// reason exists.
func (h *history) wasRefused(err error, reasons []func(error) bool) bool {
	h.Helper()
	if len(reasons) == 0 {
		require.NoError(h, err)
		return false
	}
	require.Error(h, err)
	isReason := func(reason func(error) bool) bool { return reason(err) }
	require.True(h, slices.ContainsFunc(reasons, isReason), "unexpected reason: %v", err)
	return true
}

func isError[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func (h *history) claimSome() {
	req := h.request(fmt.Sprint("owner", h.random.IntN(2)), h.clock, h.random.IntN(6))
	req.Queues = nil
	for _, i := range h.random.Perm(len(historyQueues))[:1+h.random.IntN(len(historyQueues))] {
		req.Queues = append(req.Queues, driver.Demand{Queue: historyQueues[i], Limit: h.random.IntN(5)})
	}
	if h.random.IntN(3) == 0 {
		req.Except = []driver.Kind{newVersion, otherKind}
	}
	h.Logf("claim %d of %+v for %s, except %v", req.Limit, req.Queues, req.Owner, req.Except)
	got, err := h.driver.Claim(h.ctx, req)
	require.NoError(h, err)
	expired, claimed := h.claimInModel(req)
	gotExpired, gotClaimed := map[string][]string{}, map[string][]string{}
	for _, r := range got.Records {
		require.NotNil(h, h.models[r.Group], "claimed a record of queue %q, which was not requested", r.Group)
		j := h.models[r.Group].byID[r.JobID()]
		require.NotNil(h, j, "claimed record %q of queue %q, which does not exist", r.Name, r.Group)
		if j.expired {
			gotExpired[r.Group] = append(gotExpired[r.Group], j.id)
		} else {
			gotClaimed[r.Group] = append(gotClaimed[r.Group], j.id)
		}
		j.record, j.lease.Stamp = r, r.Stamp
	}
	for _, demand := range req.Queues {
		queue := demand.Queue
		require.ElementsMatch(h, ids(expired[queue]), gotExpired[queue], "the records of queue %q that have expired", queue)
		require.Equal(h, ids(claimed[queue]), gotClaimed[queue], "the records of queue %q that may run, in their order", queue)
		h.compareClaimed(slices.Concat(expired[queue], claimed[queue]))
	}
	require.Len(h, got.Records, size(gotExpired, req.Queues)+size(gotClaimed, req.Queues), "all records must be of requested queues")
	h.compareNext(req, got.Next)
}

// claimInModel claims expired jobs, and then a job of each queue in turn.
func (h *history) claimInModel(req driver.ClaimRequest) (expired, claimed map[string][]*modelJob) {
	expired, claimed = map[string][]*modelJob{}, map[string][]*modelJob{}
	for _, demand := range req.Queues {
		expired[demand.Queue] = h.models[demand.Queue].expire(req.Now, req.Owner)
	}
	taken := 0
	for more := true; more; {
		more = false
		for _, demand := range req.Queues {
			if taken == req.Limit || len(claimed[demand.Queue]) == demand.Limit {
				continue
			}
			j := h.models[demand.Queue].claim(req)
			if j != nil {
				claimed[demand.Queue] = append(claimed[demand.Queue], j)
				taken++
				more = true
			}
		}
	}
	return expired, claimed
}

// ids returns the IDs of jobs, or nil if there are none.
func ids(jobs []*modelJob) []string {
	var all []string
	for _, j := range jobs {
		all = append(all, j.id)
	}
	return all
}

// size counts the jobs of the requested queues.
func size(byQueue map[string][]string, queues []driver.Demand) int {
	n := 0
	for _, demand := range queues {
		n += len(byQueue[demand.Queue])
	}
	return n
}

// endings are the states in which a run can end.
var endings = []amboy.JobState{
	amboy.StateSucceeded, amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateRetrying,
}

func (h *history) endOne() {
	m := h.someQueue()
	j, ok := pick(h.random, m.in(running))
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
	h.complete(m, j, j.record, state)
}

func (h *history) endByHand() {
	m := h.someQueue()
	j, ok := pick(h.random, append(m.in(pending), m.in(parked)...))
	if ok {
		h.complete(m, j, h.get(j.id), amboy.StateCanceled)
	}
}

func (h *history) complete(m *model, j *modelJob, r *driver.Record, state amboy.JobState) {
	h.Helper()
	forgetAt := h.forgetAt()
	h.Logf("complete %q of %q as %s, to be forgotten at %s", r.Name, h.queue, state, clockTime(forgetAt))
	h.stale = append(h.stale, r)
	j.record = h.endAt(r, state, forgetAt)
	if r.Progress != nil && r.Progress.Message != j.progress {
		j.progress = "" // The driver may show either progress.
	}
	m.end(j, state, forgetAt)
}

func (h *history) releaseOne() {
	m := h.someQueue()
	j, ok := pick(h.random, m.in(running))
	if !ok {
		return
	}
	back := driver.HandBack{Lease: j.lease}
	if !j.expired {
		back.NotBefore, back.Park = h.soon(0.4), h.random.IntN(4) == 0
	}
	if back.Park {
		back.NotBefore = time.Time{}
	}
	back.Started = !j.expired && h.random.IntN(2) == 0
	h.Logf("release %+v until %s, park %t, started %t", back.Lease, clockTime(back.NotBefore), back.Park, back.Started)
	h.release(back)
	h.stale = append(h.stale, j.record)
	m.release(j, back)
}

// plainScopes returns the scopes that are not limited, which Insert can take.
func plainScopes(scopes []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return limitOf(scope) > 1 })
}

func (h *history) retryOne() {
	m := h.someQueue()
	j, ok := pick(h.random, m.in(retrying))
	if !ok {
		return
	}
	s := j.spec
	s.waitUntil, s.dispatchBy = h.soon(0.3), time.Time{}
	if s.version != newVersion.Version {
		s.enqueueScopes = h.subset(plainScopes(s.scopes), 0.5)
	}
	next := nextAttempt(j.record)
	next.Priority, next.TimeInfo.WaitUntil, next.EnqueueScopes = s.priority, s.waitUntil, s.enqueueScopes
	var reasons []func(error) bool
	if m.heldByOther(s.id, s.enqueueScopes) {
		reasons = append(reasons, amboy.IsDuplicateJobScopeError)
	}
	e := endedRetry(j.record, amboy.StateFailed)
	e.ForgetAt = h.forgetAt()
	h.Logf("retry %q of %q as %s", j.record.Name, h.queue, s)
	if !h.wasRefused(h.driver.Retry(h.ctx, e, next), reasons) {
		j.forgetAt = e.ForgetAt
		m.retry(j, s, next)
	}
}

func (h *history) endRetryOne() {
	m := h.someQueue()
	j, ok := pick(h.random, m.in(retrying))
	if !ok {
		return
	}
	state := []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed}[h.random.IntN(2)]
	e := endedRetry(j.record, state)
	e.ForgetAt = h.forgetAt()
	h.Logf("end the retry of %q of %q as %s", j.record.Name, h.queue, state)
	require.NoError(h, h.driver.EndRetry(h.ctx, e))
	m.end(j, state, e.ForgetAt)
}

func (h *history) extendOne() {
	j, ok := pick(h.random, h.someQueue().in(running))
	if !ok {
		return
	}
	h.Logf("extend %+v", j.lease)
	require.False(h, h.tryExtend(j.lease))
}

// recoverSome lets some leases end. All leases have been renewed or seen when it begins
// and when it returns.
func (h *history) recoverSome() {
	h.Logf("recover")
	h.elapse(leaseTime * 2 / 3)
	want := 0
	for _, queue := range historyQueues {
		for _, j := range h.models[queue].in(running) {
			if h.random.IntN(2) == 0 {
				h.Logf("extend %+v", j.lease)
				require.False(h, h.tryExtend(j.lease))
				continue
			}
			h.stale = append(h.stale, j.record)
			h.models[queue].release(j, driver.HandBack{})
			want++
		}
	}
	h.elapseUnseen(leaseTime * 2 / 3)
	require.Equal(h, want, h.recover(), "the leases that are stale")
}

// saveOne saves the content of a job, which does not affect its state.
func (h *history) saveOne() {
	m := h.someQueue()
	j, ok := pick(h.random, append(m.in(pending), m.in(running)...))
	if !ok {
		return
	}
	h.Logf("save %q of %q", j.record.Name, h.queue)
	content := j.spec
	content.note, content.priority, content.enqueueScopes, content.uniqueKey = "saved", j.priority+1, nil, ""
	if j.stage == pending && len(j.scopes) == len(j.enqueueScopes) && h.random.IntN(2) == 0 {
		content.version = newVersion.Version + 1 - max(1, j.version)
	}
	r := h.record(content)
	r.Name, r.RetryInfo = j.record.Name, j.record.RetryInfo
	stored, err := h.driver.Get(h.ctx, r.Group, r.JobID())
	require.NoError(h, err)
	driver.CopyLock(r, stored)
	require.NoError(h, h.driver.Save(h.ctx, r))
	if content.version != j.version {
		upgraded := *j.record
		upgraded.Version = content.version
		j.record, j.version = &upgraded, content.version
	}
}

func (h *history) progressOne() {
	j, ok := pick(h.random, h.someQueue().in(running))
	if !ok {
		return
	}
	j.progress = fmt.Sprint("progress ", h.random.IntN(100))
	h.Logf("progress of %+v: %s", j.lease, j.progress)
	require.NoError(h, h.driver.SetProgress(h.ctx, j.lease, h.progress(0.5, j.progress)))
}

// writeStale tries to write under a lease that was lost.
func (h *history) writeStale() {
	r, ok := pick(h.random, h.stale)
	if !ok {
		return
	}
	lease := driver.LeaseOf(r)
	j := h.models[lease.Queue].byID[r.JobID()]
	if j != nil && j.stage != finished && j.lease == lease {
		return // restarted with the same lease
	}
	h.Logf("write under the stale lease %+v", lease)
	switch h.random.IntN(4) {
	case 0:
		h.lost(h.tryComplete(lease, ended(r, amboy.StateSucceeded)))
	case 1:
		h.lost(h.tryRelease(driver.HandBack{Lease: lease}))
	case 2:
		h.lost(h.driver.SetProgress(h.ctx, lease, h.progress(1, "stale")))
	default:
		require.True(h, h.tryExtend(lease))
	}
}

// controlOne changes the control of a queue, half of the time back to the default.
func (h *history) controlOne() {
	m := h.someQueue()
	paused, draining, most := false, false, 0
	change := driver.ControlChange{Paused: &paused, Draining: &draining, MaxRunning: &most}
	if h.random.IntN(2) == 0 {
		paused, draining, most = h.random.IntN(3) == 0, h.random.IntN(3) == 0, h.random.IntN(4)
	}
	if h.random.IntN(3) == 0 {
		change.MaxRunning = nil
	}
	if h.random.IntN(3) == 0 {
		change.Type = &driver.TypeChange{Type: jobTypeName, Limit: amboy.TypeLimit{MaxRunning: h.random.IntN(4)}}
	}
	var err error
	m.control, err = change.Apply(m.control)
	require.NoError(h, err)
	h.Logf("control %q: %+v", h.queue, m.control)
	require.Equal(h, m.control, h.control(change))
}

// actOnOne acts on the attempts of a job, if the contract defines the result.
func (h *history) actOnOne() {
	m := h.someQueue()
	j, ok := pick(h.random, m.attempts)
	if !ok || m.headless[j.id] {
		return
	}
	kind, _ := pick(h.random, driver.ActionKinds())
	j = m.byID[j.id]
	isLater := j.waitUntil.After(h.clock) || j.notBefore.After(h.clock)
	hadTime := !j.waitUntil.IsZero() || !j.notBefore.IsZero()
	switch {
	case kind == driver.RunNow && j.stage == parked,
		kind == driver.RunNow && hadTime && (!isLater || len(j.open) > 0),
		kind == driver.Park && (j.stage == parked || !j.notBefore.IsZero()),
		kind == driver.Restart && hadTime && isLater,
		kind == driver.Restart && slices.ContainsFunc(j.edges, func(edge string) bool { return m.headless[edge] }):
		return
	}
	a := driver.Action{Kind: kind, Priority: h.random.IntN(4), Reason: "why not"}
	switch kind {
	case driver.Reschedule:
		a.At = h.soon(0.7)
	case driver.Cancel:
		a.ForgetAt = h.forgetAt()
	case driver.Restart:
		a.IgnoreEdges = h.random.IntN(4) == 0
	case driver.Edit:
		a.Edit = &driver.EditedFields{Count: j.lease.Count - h.random.IntN(4)/3, Priority: &a.Priority}
	}
	h.actOnThese(m, driver.Query{Queues: []string{h.queue}, ID: j.id}, a, func(other *modelJob) bool { return other.id == j.id })
}

// actOnSome acts on the jobs of a queue that have a tag.
func (h *history) actOnSome() {
	m := h.someQueue()
	tag, _ := pick(h.random, historyTags)
	kind, _ := pick(h.random, []driver.ActionKind{driver.Cancel, driver.Prioritize, driver.Unpark, driver.Delete})
	q := driver.Query{Queues: []string{h.queue}, Tags: []string{tag}}
	a := driver.Action{Kind: kind, Priority: h.random.IntN(4)}
	h.actOnThese(m, q, a, func(j *modelJob) bool { return slices.Contains(j.tags, tag) })
}

// actOnThese acts on the jobs that a query selects, and on the jobs of the model for
// which isSelected is true.
func (h *history) actOnThese(m *model, q driver.Query, a driver.Action, isSelected func(*modelJob) bool) {
	h.Helper()
	h.Logf("%s of %q: ID %q, tags %q, at %s, priority %d, to be forgotten at %s, ignoring edges: %t", a.Kind, h.queue, q.ID, q.Tags, clockTime(a.At), a.Priority, clockTime(a.ForgetAt), a.IgnoreEdges)
	var want driver.Acted
	for _, j := range slices.Clone(m.attempts) {
		if !isSelected(j) {
			continue
		}
		wasPending := j.stage == pending || j.stage == parked
		if !m.act(j, a) {
			want.Skipped++
			continue
		}
		want.Done++
		if a.Kind == driver.Cancel && wasPending {
			h.stale = append(h.stale, j.record)
		}
	}
	require.Equal(h, want, h.actOn(q, a))
}

func (h *history) forgetSome() {
	at, limit := h.start.Add(time.Duration(h.random.IntN(7))*time.Hour-time.Minute), 1+h.random.IntN(3)
	h.Logf("forget %d at %s", limit, clockTime(at))
	type removable struct {
		m *model
		j *modelJob
	}
	var all []removable
	for _, queue := range historyQueues {
		m := h.models[queue]
		for _, j := range m.attempts {
			if j.stage == finished && !j.forgetAt.IsZero() && !j.forgetAt.After(at) {
				all = append(all, removable{m, j})
			}
		}
	}
	slices.SortFunc(all, func(a, b removable) int { return a.j.forgetAt.Compare(b.j.forgetAt) })
	all = all[:min(limit, len(all))]
	for _, r := range all {
		r.m.remove(r.j)
	}
	require.Equal(h, len(all), h.forget(at, limit))
}

func (h *history) advance() {
	h.clock = h.clock.Add(time.Duration(1+h.random.IntN(2)) * time.Hour)
	h.Logf("it is %s", clockTime(h.clock))
}

func (h *history) reopenStore() {
	killed := h.random.IntN(2) == 0
	h.Logf("reopen the store, killed %t", killed)
	h.reopen(killed)
}
