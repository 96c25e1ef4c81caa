package drivertest

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// model is the simplest form of a driver's queue: it examines every job to answer a
// question.
type model struct {
	attempts []*modelJob          // in the order in which they were added
	byID     map[string]*modelJob // the latest attempt of each job
	holders  map[string][]string  // from scope to job IDs
	keys     map[string]string    // from unique key to job ID
	control  driver.Control
	arrived  int // the number of arrivals
	// headless holds the jobs whose latest attempt was removed while others were not. The
	// contract does not define what becomes of their IDs.
	headless map[string]bool
}

// modelJob is an attempt of a job.
type modelJob struct {
	spec
	number    int // of arrival
	attempt   int
	restarted bool
	stage     stage
	record    *driver.Record // as put, or last claimed or written
	lease     driver.Lease
	notBefore time.Time
	open      []string // the edges that have not ended
	failed    []string // the edges that did not succeed
	expired   bool     // claimed to be ended
	ending    amboy.JobState
	forgetAt  time.Time // while canceling, the ForgetAt of the Cancel
	canceling bool
	reason    string // of the Cancel, if it ends the attempt
	progress  string // the message, or empty
}

// stage is the part of a job's state that does not follow from other jobs or the time.
type stage int

const (
	pending stage = iota
	parked
	running
	retrying
	finished
)

func newModel() *model {
	return &model{
		byID:     map[string]*modelJob{},
		holders:  map[string][]string{},
		keys:     map[string]string{},
		headless: map[string]bool{},
	}
}

// in lists the latest attempts that are in a stage, in the order of arrival.
func (m *model) in(s stage) []*modelJob {
	var found []*modelJob
	for _, j := range m.attempts {
		if j.stage == s && m.byID[j.id] == j {
			found = append(found, j)
		}
	}
	return found
}

// heldByOther reports whether a job other than id holds one of the scopes.
func (m *model) heldByOther(id string, scopes []string) bool {
	return slices.ContainsFunc(scopes, func(scope string) bool {
		return m.others(id, scope) >= limitOf(scope)
	})
}

// others counts the holders of a scope except the job id.
func (m *model) others(id, scope string) int {
	n := len(m.holders[scope])
	if slices.Contains(m.holders[scope], id) {
		n--
	}
	return n
}

// limitOf returns how many jobs may hold a scope. In a history, a key has one limit.
func limitOf(scope string) int {
	_, limit, _ := amboy.ScopeLimit(scope)
	return limit
}

func (m *model) hold(id string, scopes []string) {
	for _, scope := range scopes {
		if !slices.Contains(m.holders[scope], id) {
			m.holders[scope] = append(m.holders[scope], id)
		}
	}
}

// keep frees the scopes of a job, except those to keep.
func (m *model) keep(id string, kept []string) {
	for scope, holders := range m.holders {
		if !slices.Contains(kept, scope) {
			m.holders[scope] = slices.DeleteFunc(holders, func(holder string) bool { return holder == id })
		}
	}
}

// keyOfOther reports whether a job other than id has a unique key.
func (m *model) keyOfOther(id, key string) bool {
	holder, held := m.keys[key]
	return key != "" && held && holder != id
}

func (m *model) freeKey(j *modelJob) {
	if m.keys[j.uniqueKey] == j.id {
		delete(m.keys, j.uniqueKey)
	}
}

// held lists the scopes that a job holds.
func (m *model) held(id string) []string {
	var scopes []string
	for scope, holders := range m.holders {
		if slices.Contains(holders, id) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// refusals returns the reasons to refuse a job. A driver returns one of them.
func (m *model) refusals(s spec) []func(error) bool {
	var reasons []func(error) bool
	if want := m.duplicate(s); want != nil {
		reasons = append(reasons, func(err error) bool {
			var got *amboy.DuplicateJobError
			return errors.As(err, &got) && *got == *want
		})
	}
	if m.control.Draining {
		reasons = append(reasons, func(err error) bool { return errors.Is(err, amboy.ErrQueueDraining) })
	}
	if slices.Contains(s.edges, s.id) {
		reasons = append(reasons, isError[*amboy.DependencyCycleError])
	}
	if slices.ContainsFunc(s.edges, func(edge string) bool { return m.byID[edge] == nil }) {
		reasons = append(reasons, isError[*amboy.InvalidJobError])
	}
	return reasons
}

// duplicate returns the first reason to refuse a job as a duplicate; nil if there is none.
func (m *model) duplicate(s spec) *amboy.DuplicateJobError {
	if m.byID[s.id] != nil {
		return &amboy.DuplicateJobError{JobID: s.id, Reason: amboy.DuplicateID, Value: s.id, ExistingID: s.id}
	}
	if m.keyOfOther(s.id, s.uniqueKey) {
		return &amboy.DuplicateJobError{JobID: s.id, Reason: amboy.DuplicateUniqueKey, Value: s.uniqueKey, ExistingID: m.keys[s.uniqueKey]}
	}
	for _, scope := range s.enqueueScopes {
		if m.heldByOther(s.id, []string{scope}) {
			return &amboy.DuplicateJobError{JobID: s.id, Reason: amboy.DuplicateEnqueueScope, Value: scope, ExistingID: m.holders[scope][0]}
		}
	}
	return nil
}

// add adds a job that must not be refused.
func (m *model) add(s spec, r *driver.Record) {
	j := &modelJob{spec: s}
	m.link(j)
	if s.uniqueKey != "" {
		m.keys[s.uniqueKey] = s.id
	}
	m.store(j, r)
}

// link makes a job wait for its edges, and finds those that have failed.
func (m *model) link(j *modelJob) {
	j.open, j.failed = nil, nil
	for _, edge := range j.edges {
		switch target := m.byID[edge]; {
		case target == nil: // it was removed since the job was put
		case target.stage != finished:
			j.open = append(j.open, edge)
		case target.ending != amboy.StateSucceeded:
			j.failed = append(j.failed, edge)
		}
	}
}

func (m *model) store(j *modelJob, r *driver.Record) {
	j.record, j.lease = r, driver.LeaseOf(r)
	m.arrive(j)
	m.hold(j.id, j.enqueueScopes)
	m.attempts = append(m.attempts, j)
	m.byID[j.id] = j
}

func (m *model) arrive(j *modelJob) {
	m.arrived++
	j.number = m.arrived
}

// isDue reports whether a pending job waits for nothing but scopes.
func (j *modelJob) isDue(now time.Time) bool {
	return len(j.open) == 0 && !j.waitUntil.After(now) && !j.notBefore.After(now)
}

// isPast reports whether a job has not started by its dispatch-by time.
func (j *modelJob) isPast(now time.Time) bool {
	return !j.dispatchBy.IsZero() && j.dispatchBy.Before(now)
}

// runnable lists the jobs that may run at a time, in their order, considering the scopes
// that earlier jobs take.
func (m *model) runnable(now time.Time) []*modelJob {
	candidates := slices.DeleteFunc(m.in(pending), func(j *modelJob) bool {
		return j.isPast(now) || !j.isDue(now) || m.heldByOther(j.id, j.scopes)
	})
	slices.SortFunc(candidates, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.number, b.number))
	})
	taken := map[string]int{}
	return slices.DeleteFunc(candidates, func(j *modelJob) bool {
		if slices.ContainsFunc(j.scopes, func(scope string) bool { return m.others(j.id, scope)+taken[scope] >= limitOf(scope) }) {
			return true
		}
		for _, scope := range j.scopes {
			taken[scope]++
		}
		return false
	})
}

// expire claims the jobs that have expired.
func (m *model) expire(now time.Time, by string) []*modelJob {
	var expired []*modelJob
	for _, j := range m.in(pending) {
		if j.isPast(now) {
			expired = append(expired, j)
			j.expired = true
			m.start(j, by)
		}
	}
	return expired
}

// room returns how many more jobs may run.
func (m *model) room() int {
	if m.control.Paused {
		return 0
	}
	room := math.MaxInt
	for _, most := range []int{m.control.MaxRunning, m.control.Types[jobTypeName].MaxRunning} {
		if most > 0 {
			room = min(room, max(0, most-len(m.in(running))))
		}
	}
	return room
}

// claim claims the first job that may run and whose kind the request does not exclude. It
// returns nil if there is none.
func (m *model) claim(req driver.ClaimRequest) *modelJob {
	if m.room() == 0 {
		return nil
	}
	runnable := slices.DeleteFunc(m.runnable(req.Now), func(j *modelJob) bool {
		return j.version == newVersion.Version && slices.Contains(req.Except, newVersion)
	})
	if len(runnable) == 0 {
		return nil
	}
	j := runnable[0]
	m.hold(j.id, j.scopes)
	m.start(j, req.Owner)
	return j
}

func (m *model) start(j *modelJob, by string) {
	if j.uniqueUntil == amboy.UniqueUntilStarted {
		m.freeKey(j)
	}
	j.stage = running
	j.lease.Owner = by
	j.lease.Count++
}

// next returns when more may become claimable after a claim, or the zero time.
func (m *model) next(now time.Time) time.Time {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, j := range m.in(pending) {
		if !j.dispatchBy.IsZero() {
			consider(j.dispatchBy.Add(1))
		}
		if len(j.open) == 0 {
			consider(j.waitUntil)
			consider(j.notBefore)
		}
	}
	return next
}

// end ends an attempt in a state.
func (m *model) end(j *modelJob, state amboy.JobState, forgetAt time.Time) {
	if j.canceling && (state == amboy.StateRetrying || state == amboy.StateFailed) {
		state = amboy.StateCanceled
		if !j.forgetAt.IsZero() {
			forgetAt = j.forgetAt
		}
	}
	if !j.canceling || state != amboy.StateCanceled {
		j.reason = ""
	}
	j.ending, j.forgetAt, j.canceling = state, forgetAt, false
	if state == amboy.StateRetrying {
		j.stage = retrying
		m.keep(j.id, j.enqueueScopes)
		return
	}
	j.stage = finished
	m.keep(j.id, nil)
	switch j.uniqueUntil {
	case amboy.UniqueUntilForgotten:
	case amboy.UniqueUntilFailed:
		if state != amboy.StateSucceeded {
			m.freeKey(j)
		}
	default:
		m.freeKey(j)
	}
	for _, dependent := range m.attempts {
		if i := slices.Index(dependent.open, j.id); i >= 0 {
			dependent.open = slices.Delete(dependent.open, i, i+1)
			if state != amboy.StateSucceeded {
				dependent.failed = append(dependent.failed, j.id)
			}
		}
	}
}

// release hands a lease back.
func (m *model) release(j *modelJob, back driver.HandBack) {
	if j.canceling {
		m.end(j, amboy.StateCanceled, j.forgetAt)
		j.lease.Count++
		return
	}
	if back.Started {
		j.dispatchBy = time.Time{}
	}
	j.stage, j.notBefore, j.expired = pending, back.NotBefore, false
	if back.Park {
		j.stage = parked
	}
	j.lease.Owner = ""
	m.keep(j.id, j.enqueueScopes)
}

// retry replaces an attempt by the next one.
func (m *model) retry(j *modelJob, next spec, r *driver.Record) {
	j.stage, j.ending = finished, amboy.StateFailed
	m.keep(j.id, next.enqueueScopes)
	m.store(&modelJob{spec: next, attempt: j.attempt + 1}, r)
}

// act does an action to an attempt and reports whether that is possible.
func (m *model) act(j *modelJob, a driver.Action) bool {
	if m.byID[j.id] != j && a.Kind != driver.Delete {
		return false // it was replaced
	}
	switch a.Kind {
	case driver.Cancel:
		return m.cancel(j, a)
	case driver.RunNow, driver.Reschedule:
		isTimeless := j.waitUntil.IsZero() && j.notBefore.IsZero()
		if j.stage != pending || (a.Kind == driver.RunNow && isTimeless) {
			return false
		}
		j.waitUntil, j.notBefore = a.At, time.Time{}
		j.lease.Count++
	case driver.Prioritize:
		if j.stage == finished {
			return false
		}
		j.priority = a.Priority
	case driver.Park:
		if j.stage != pending {
			return false
		}
		j.stage = parked
		j.lease.Count++
	case driver.Edit:
		if j.stage != pending && j.stage != parked || a.IsStale(j.lease.Count) {
			return false
		}
		j.priority = *a.Edit.Priority
		j.lease.Count++
	case driver.Unpark:
		if j.stage != parked {
			return false
		}
		j.stage = pending
		j.lease.Count++
	case driver.Restart:
		return m.restart(j, a.IgnoreEdges)
	case driver.Delete:
		if j.stage != finished {
			return false
		}
		m.remove(j)
	}
	return true
}

func (m *model) cancel(j *modelJob, a driver.Action) bool {
	switch j.stage {
	case finished:
		return false
	case running:
		j.canceling, j.forgetAt, j.reason = true, a.ForgetAt, a.Reason
	default:
		m.end(j, amboy.StateCanceled, a.ForgetAt)
		j.lease.Count++
		j.reason = a.Reason
	}
	return true
}

func (m *model) restart(j *modelJob, ignoreEdges bool) bool {
	if j.stage != finished || j.ending == amboy.StateSucceeded ||
		m.heldByOther(j.id, j.enqueueScopes) || m.keyOfOther(j.id, j.uniqueKey) {
		return false
	}
	j.stage, j.restarted, j.expired = pending, true, false
	m.link(j)
	if ignoreEdges {
		j.open, j.failed = nil, nil
	}
	j.dispatchBy, j.notBefore, j.forgetAt = time.Time{}, time.Time{}, time.Time{}
	j.progress, j.lease.Owner, j.reason = "", "", ""
	m.hold(j.id, j.enqueueScopes)
	if j.uniqueKey != "" {
		m.keys[j.uniqueKey] = j.id
	}
	m.arrive(j)
	j.lease.Count++
	return true
}

// remove removes an attempt that ended for good.
func (m *model) remove(j *modelJob) {
	m.attempts = slices.DeleteFunc(m.attempts, func(other *modelJob) bool { return other == j })
	if m.byID[j.id] != j {
		return
	}
	m.freeKey(j)
	delete(m.byID, j.id)
	m.headless[j.id] = slices.ContainsFunc(m.attempts, func(other *modelJob) bool { return other.id == j.id })
}

// states returns the states that the driver may show for an attempt at the time of the
// test, if claims were made at a later time. More than one state is possible if the
// driver remembers what a claim found: if a time has come for the claims but not for the
// test, or if a scope is free that another record may take first.
func (m *model) states(j *modelJob, claimed time.Time) []amboy.JobState {
	switch j.stage {
	case finished, retrying:
		return []amboy.JobState{j.ending}
	case running:
		return []amboy.JobState{amboy.StateRunning}
	case parked:
		return []amboy.JobState{amboy.StateParked}
	}
	switch {
	case len(j.open) > 0 || j.notBefore.After(claimed):
		return []amboy.JobState{amboy.StateBlocked}
	case j.waitUntil.After(claimed):
		return []amboy.JobState{amboy.StateScheduled}
	case j.restarted && !j.waitUntil.IsZero():
		return []amboy.JobState{amboy.StateScheduled, amboy.StateBlocked, amboy.StatePending}
	case !j.waitUntil.IsZero():
		return []amboy.JobState{amboy.StateScheduled, amboy.StateBlocked}
	case m.heldByOther(j.id, j.scopes) && j.notBefore.IsZero():
		return []amboy.JobState{amboy.StateBlocked}
	case m.isContended(j) || !j.notBefore.IsZero():
		return []amboy.JobState{amboy.StatePending, amboy.StateBlocked}
	default:
		return []amboy.JobState{amboy.StatePending}
	}
}

// isContended reports whether another pending job wants a scope of a job.
func (m *model) isContended(j *modelJob) bool {
	return slices.ContainsFunc(m.in(pending), func(other *modelJob) bool {
		return other != j && slices.ContainsFunc(other.scopes, func(scope string) bool {
			return slices.Contains(j.scopes, scope)
		})
	})
}
