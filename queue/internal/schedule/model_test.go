package schedule_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// model is a Schedule in its simplest form: it has no heap and no promises, and reads every
// job to answer a question.
type model struct {
	keepFinished int
	forwardEdges bool

	jobs     []*modelJob                // all known jobs
	finished []*modelJob                // the kept jobs and attempts
	holders  map[string]map[string]bool // from scope to job IDs
	keys     map[string]string          // from unique key to job ID
	ended    int
	added    int
}

type modelJob struct {
	*entry    // a copy with the expected exported fields
	real      *entry
	number    int // in the order of arrival
	stage     stage
	until     time.Time // while pending: when it is due; zero for now
	postponed bool
	open      []string // the edges that have not ended
	failed    []string
	succeeded bool
}

func newModelJob(e *entry, number int) *modelJob {
	expected := *e
	return &modelJob{entry: &expected, real: e, number: number}
}

// stage is the part of a job's place that does not follow from other jobs.
type stage int

const (
	pending stage = iota
	parked
	running
	retrying
	finished
)

func (m *model) get(id string) *modelJob {
	for _, j := range m.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// in returns the jobs in one of the stages.
func (m *model) in(stages ...stage) []*modelJob {
	var found []*modelJob
	for _, j := range m.jobs {
		if slices.Contains(stages, j.stage) {
			found = append(found, j)
		}
	}
	return found
}

// refusals returns the reasons not to add an entry. Add must return one of them.
func (m *model) refusals(e *entry) []func(error) bool {
	var reasons []func(error) bool
	if m.get(e.ID) != nil || m.keyOfOther(e) {
		reasons = append(reasons, func(err error) bool {
			return amboy.IsDuplicateJobError(err) && !amboy.IsDuplicateJobScopeError(err)
		})
	}
	if m.leads(e.Edges, e.ID, nil) || slices.Contains(e.Edges, e.ID) {
		reasons = append(reasons, func(err error) bool { return m.isCycle(err, e) })
	}
	for _, edge := range e.Edges {
		if m.get(edge) == nil && !m.forwardEdges {
			reasons = append(reasons, func(err error) bool {
				var invalid *amboy.InvalidJobError
				return errors.As(err, &invalid) && invalid.JobID == e.ID
			})
			break
		}
	}
	if m.heldByOther(e, e.Scopes.AtPut()) {
		reasons = append(reasons, amboy.IsDuplicateJobScopeError)
	}
	return reasons
}

// leads reports whether a path leads from edges to a job, along open edges of unfinished
// jobs.
func (m *model) leads(edges []string, to string, passed []string) bool {
	for _, edge := range edges {
		if edge == to {
			return true
		}
		j := m.get(edge)
		if j == nil || j.stage == finished || slices.Contains(passed, edge) {
			continue
		}
		passed = append(passed, edge)
		if m.leads(j.open, to, passed) {
			return true
		}
	}
	return false
}

// isCycle reports whether an error contains a path from an entry back to it.
func (m *model) isCycle(err error, e *entry) bool {
	var cycle *amboy.DependencyCycleError
	if !errors.As(err, &cycle) || len(cycle.Path) < 2 || cycle.Path[0] != e.ID || cycle.Path[len(cycle.Path)-1] != e.ID {
		return false
	}
	edges := e.Edges
	for _, id := range cycle.Path[1:] {
		if !slices.Contains(edges, id) {
			return false
		}
		if j := m.get(id); j != nil {
			edges = j.Edges
		}
	}
	return true
}

func (m *model) heldByOther(e *entry, scopes []string) bool {
	for _, scope := range scopes {
		if m.others(e, scope) >= limit(scope) {
			return true
		}
	}
	return false
}

// others counts the holders of a scope except a job.
func (m *model) others(e *entry, scope string) int {
	n := len(m.holders[scope])
	if m.holders[scope][e.ID] {
		n--
	}
	return n
}

// limit returns how many jobs may hold a scope. In a history, a key has one limit.
func limit(scope string) int {
	_, n, _ := amboy.ScopeLimit(scope)
	return n
}

// keyOfOther reports whether another job holds the unique key of an entry.
func (m *model) keyOfOther(e *entry) bool {
	key, _ := e.Unique.Split()
	holder, held := m.keys[key]
	return held && holder != e.ID
}

func (m *model) takeKey(j *modelJob) {
	if j.Unique != nil {
		m.keys[j.Unique.Key] = j.ID
	}
}

// freeKey releases the unique key of a job that holds it no longer than until now.
func (m *model) freeKey(j *modelJob, until ...amboy.UniqueUntil) {
	if u := j.Unique; u != nil && slices.Contains(until, u.Until) && m.keys[u.Key] == j.ID {
		delete(m.keys, u.Key)
	}
}

// add adds an entry without refusals.
func (m *model) add(e *entry, now time.Time) {
	m.added++
	j := newModelJob(e, m.added)
	m.link(j)
	m.hold(e, e.Scopes.AtPut())
	m.takeKey(j)
	m.jobs = append(m.jobs, j)
	m.resume(j, e.WaitUntil, now)
}

// link makes a job wait for its edges, and finds those that have failed.
func (m *model) link(j *modelJob) {
	j.open, j.failed = nil, nil
	for _, edge := range j.Edges {
		target := m.get(edge)
		switch {
		case target == nil && !m.forwardEdges: // it was removed
		case target == nil || target.stage != finished:
			j.open = append(j.open, edge)
		case !target.succeeded:
			j.failed = append(j.failed, edge)
		}
	}
}

// resume makes a job pending. It waits until a time if that is in the future.
func (m *model) resume(j *modelJob, until, now time.Time) {
	j.stage, j.until, j.postponed = pending, time.Time{}, false
	if len(j.open) == 0 && until.After(now) {
		j.until = until
	}
}

func (m *model) hold(e *entry, scopes []string) {
	for _, scope := range scopes {
		if m.holders[scope] == nil {
			m.holders[scope] = map[string]bool{}
		}
		m.holders[scope][e.ID] = true
	}
}

// free releases the scopes that a job holds, except those to keep.
func (m *model) free(j *modelJob, keep []string) {
	for scope, holders := range m.holders {
		if !slices.Contains(keep, scope) {
			delete(holders, j.ID)
		}
	}
}

// runnable returns the jobs that could all be started now, by repeatedly taking the first
// job whose scopes are free.
func (m *model) runnable() []*modelJob {
	candidates := slices.DeleteFunc(m.in(pending), func(j *modelJob) bool {
		return len(j.open) > 0 || !j.until.IsZero() || m.heldByOther(j.entry, j.Scopes.Names())
	})
	slices.SortFunc(candidates, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.number, b.number))
	})
	var chosen []*modelJob
	taken := map[string]int{}
	for _, j := range candidates {
		if slices.ContainsFunc(j.Scopes.Names(), func(scope string) bool {
			return m.others(j.entry, scope)+taken[scope] >= limit(scope)
		}) {
			continue
		}
		for _, scope := range j.Scopes.Names() {
			taken[scope]++
		}
		chosen = append(chosen, j)
	}
	return chosen
}

func (m *model) next() *modelJob {
	chosen := m.runnable()
	if len(chosen) == 0 {
		return nil
	}
	j := chosen[0]
	m.start(j)
	m.hold(j.entry, j.Scopes.Names())
	return j
}

func (m *model) start(j *modelJob) {
	j.stage = running
	m.freeKey(j, amboy.UniqueUntilStarted)
}

func (m *model) finish(j *modelJob, succeeded bool, now time.Time) {
	j.stage, j.succeeded = finished, succeeded
	m.free(j, nil)
	m.freeKey(j, "", amboy.UniqueUntilStarted, amboy.UniqueUntilEnded)
	if !succeeded {
		m.freeKey(j, amboy.UniqueUntilFailed)
	}
	for _, d := range m.jobs {
		waited := len(d.open) > 0
		for slices.Contains(d.open, j.ID) {
			i := slices.Index(d.open, j.ID)
			d.open = slices.Delete(d.open, i, i+1)
			if !succeeded {
				d.failed = append(d.failed, j.ID)
			}
		}
		if waited && len(d.open) == 0 && d.stage == pending {
			m.resume(d, d.WaitUntil, now)
		}
	}
	m.end(j)
}

// end keeps an ended job or attempt, and removes the oldest.
func (m *model) end(j *modelJob) {
	m.ended++
	m.finished = append(m.finished, j)
	for len(m.finished) > m.keepFinished {
		m.remove(m.finished[0])
	}
}

func (m *model) retry(j *modelJob) {
	j.stage = retrying
	m.free(j, j.Scopes.AtPut())
}

func (m *model) replace(j *modelJob, e *entry, now time.Time) {
	m.added++
	next := newModelJob(e, m.added)
	next.open = j.open
	next.Unique = j.Unique
	m.free(j, e.Scopes.AtPut())
	m.hold(e, e.Scopes.AtPut())
	m.jobs[slices.Index(m.jobs, j)] = next
	j.stage = finished
	m.resume(next, e.WaitUntil, now)
	m.end(j)
}

func (m *model) release(j *modelJob, until, now time.Time) {
	m.free(j, j.Scopes.AtPut())
	m.resume(j, until, now)
	j.postponed = !j.until.IsZero()
}

func (m *model) repeat(j *modelJob, waitUntil, dispatchBy, now time.Time) {
	m.free(j, j.Scopes.AtPut())
	m.added++
	j.number, j.failed = m.added, nil
	j.WaitUntil, j.DispatchBy = waitUntil, dispatchBy
	m.resume(j, waitUntil, now)
}

func (m *model) park(j *modelJob) {
	j.stage = parked
	m.free(j, j.Scopes.AtPut())
}

// reschedule sets another time for a pending job.
func (m *model) reschedule(j *modelJob, until, now time.Time) {
	j.WaitUntil = until
	m.resume(j, until, now)
}

// restartable reports whether an ended job may run again.
func (m *model) restartable(j *modelJob) bool {
	return j.stage == finished && slices.Contains(m.jobs, j) && !m.heldByOther(j.entry, j.Scopes.AtPut()) &&
		!m.keyOfOther(j.entry)
}

func (m *model) restart(j *modelJob, edges []string, now time.Time) {
	m.ended--
	m.finished = without(m.finished, j)
	m.added++
	j.number = m.added
	j.Edges, j.DispatchBy = edges, time.Time{}
	m.link(j)
	m.hold(j.entry, j.Scopes.AtPut())
	m.takeKey(j)
	m.resume(j, j.WaitUntil, now)
}

func (m *model) remove(j *modelJob) {
	m.finished = without(m.finished, j)
	if slices.Contains(m.jobs, j) { // otherwise a later attempt may hold the key
		m.freeKey(j, amboy.UniqueUntilFailed, amboy.UniqueUntilForgotten)
	}
	m.jobs = without(m.jobs, j)
}

func without(jobs []*modelJob, other *modelJob) []*modelJob {
	return slices.DeleteFunc(jobs, func(j *modelJob) bool { return j == other })
}

func (m *model) advance(now time.Time) (expired []*modelJob) {
	for _, j := range m.in(pending) {
		switch {
		case !j.DispatchBy.IsZero() && j.DispatchBy.Before(now):
			m.start(j)
			expired = append(expired, j)
		case !j.until.After(now):
			j.until, j.postponed = time.Time{}, false
		}
	}
	slices.SortFunc(expired, func(a, b *modelJob) int {
		return cmp.Or(a.DispatchBy.Compare(b.DispatchBy), cmp.Compare(a.number, b.number))
	})
	return expired
}

// nextTime returns the first time at which a job is due or has expired.
func (m *model) nextTime() (time.Time, bool) {
	var times []time.Time
	for _, j := range m.in(pending) {
		if !j.until.IsZero() {
			times = append(times, j.until)
		}
		if !j.DispatchBy.IsZero() {
			times = append(times, j.DispatchBy.Add(1))
		}
	}
	if len(times) == 0 {
		return time.Time{}, false
	}
	return slices.MinFunc(times, time.Time.Compare), true
}

func (m *model) missing() []string {
	var ids []string
	for _, j := range m.in(pending, parked, running, retrying) {
		for _, edge := range j.open {
			if m.get(edge) == nil {
				ids = append(ids, edge)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// places returns the place of each job.
func (m *model) places() map[string]schedule.Place {
	runnable := m.runnable()
	places := map[string]schedule.Place{}
	for _, j := range m.jobs {
		places[j.ID] = map[stage]schedule.Place{
			parked:   schedule.Parked,
			running:  schedule.Running,
			retrying: schedule.Retrying,
			finished: schedule.Finished,
		}[j.stage]
		if j.stage != pending {
			continue
		}
		switch {
		case len(j.open) > 0:
			places[j.ID] = schedule.Waiting
		case j.postponed:
			places[j.ID] = schedule.Postponed
		case !j.until.IsZero():
			places[j.ID] = schedule.Scheduled
		case slices.Contains(runnable, j):
			places[j.ID] = schedule.Ready
		default:
			places[j.ID] = schedule.ScopeBlocked
		}
	}
	return places
}

func (m *model) stats() amboy.QueueStats {
	stats := amboy.QueueStats{
		Running:   len(m.in(running)),
		Retrying:  len(m.in(retrying)),
		Pending:   len(m.in(pending, parked)),
		Completed: m.ended + len(m.in(retrying)),
	}
	for _, place := range m.places() {
		switch place {
		case schedule.Waiting, schedule.Postponed, schedule.ScopeBlocked:
			stats.Blocked++
		}
	}
	stats.Total = stats.Pending + stats.Running + stats.Completed
	return stats
}

// choices decide the steps of a history.
type choices interface {
	// choose returns a number below n.
	choose(n int) int
	// more reports whether a decision is left.
	more() bool
}

// randomChoices are random choices for a number of steps.
type randomChoices struct {
	*rand.Rand
	steps int
}

func (r *randomChoices) choose(n int) int { return r.IntN(n) }

func (r *randomChoices) more() bool {
	r.steps--
	return r.steps >= 0
}

// byteChoices are choices from the bytes of a fuzzer.
type byteChoices []byte

func (b *byteChoices) choose(n int) int {
	if len(*b) == 0 {
		return 0
	}
	choice := int((*b)[0]) % n
	*b = (*b)[1:]
	return choice
}

func (b *byteChoices) more() bool { return len(*b) > 0 }

// history applies the same steps to a Schedule and to a model, and compares them.
type history struct {
	choices
	schedule schedule.Schedule[string]
	model    model
	now      time.Time
	log      []string
	fault    error
}

// jobIDs is the number of job IDs in a history.
const jobIDs = 10

func (h *history) id() string { return fmt.Sprint("job-", h.choose(jobIDs)) }

// some chooses some of the names.
func (h *history) some(names []string) []string {
	var chosen []string
	for _, name := range names {
		if h.choose(3) == 0 {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

// time chooses the zero time or a near time.
func (h *history) time() time.Time {
	if h.choose(2) == 0 {
		return time.Time{}
	}
	return h.now.Add(time.Duration(h.choose(6)-1) * time.Second)
}

// keys are the unique keys of a history, and untils how long jobs hold theirs.
var (
	keys   = []string{"", "", "", "one", "two"}
	untils = []amboy.UniqueUntil{
		"", amboy.UniqueUntilEnded, amboy.UniqueUntilStarted, amboy.UniqueUntilFailed, amboy.UniqueUntilForgotten,
	}
)

func (h *history) newEntry(id string, edges []string) *entry {
	scopes := h.some([]string{"red", "green", "blue"})
	atPut := h.some(scopes)
	scopes = append(scopes, h.some([]string{amboy.LimitScope("few", 2), amboy.LimitScope("more", 3)})...)
	return &entry{
		ID:         id,
		Priority:   h.choose(3) - 1,
		WaitUntil:  h.time(),
		DispatchBy: h.time(),
		Scopes:     schedule.NewScopes(scopes, atPut),
		Edges:      edges,
		Unique:     schedule.NewUnique(keys[h.choose(len(keys))], untils[h.choose(len(untils))]),
	}
}

func (h *history) edges() []string {
	var edges []string
	for range max(0, h.choose(6)-3) {
		edges = append(edges, h.id())
	}
	return edges
}

// pick chooses a job in one of the stages and returns it with its entry; nil if there is
// none.
func (h *history) pick(stages ...stage) (*modelJob, *entry) {
	jobs := h.model.in(stages...)
	if len(jobs) == 0 {
		return nil, nil
	}
	j := jobs[h.choose(len(jobs))]
	e, ok := h.schedule.Get(j.ID)
	if !ok {
		h.failf("%s is not there", j.ID)
		return nil, nil
	}
	return j, e
}

func (h *history) logf(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *history) failf(format string, args ...any) {
	if h.fault == nil {
		h.fault = fmt.Errorf(format+"; after:\n%s", append(args, strings.Join(h.log, "\n"))...)
	}
}

// runHistory runs a history to its end and returns the first difference between Schedule and
// model.
func runHistory(c choices) (fault error) {
	h := &history{choices: c, now: time.Unix(1_000_000, 0)}
	defer func() {
		if value := recover(); value != nil {
			h.failf("panic: %v", value)
			fault = h.fault
		}
	}()
	h.model.holders, h.model.keys = map[string]map[string]bool{}, map[string]string{}
	h.model.keepFinished = h.choose(4) * 3
	h.model.forwardEdges = h.choose(2) == 0
	h.schedule.KeepFinished = h.model.keepFinished
	h.schedule.ForwardEdges = h.model.forwardEdges
	if h.choose(2) == 0 {
		schedule.SetSettleAtOnce(&h.schedule, 1)
	}
	h.schedule.Forget = func(e *entry) {
		if e.Place() != schedule.Finished {
			h.failf("%s was forgotten, and is in place %d", e.ID, e.Place())
		}
	}
	for h.more() && h.fault == nil {
		h.step()
		if h.schedule.Unsettled() && h.choose(2) == 0 {
			continue // the next call comes before the Schedule is settled
		}
		h.compare()
	}
	for h.fault == nil && h.drain() {
		h.compare()
	}
	return h.fault
}

func (h *history) step() {
	switch h.choose(19) {
	case 0, 1, 2:
		h.add(h.newEntry(h.id(), h.edges()))
	case 3, 4, 5:
		h.next()
	case 6:
		h.finish(running)
	case 7:
		h.finish(pending, parked, running, retrying)
	case 8:
		h.retry()
	case 9:
		h.replace()
	case 10:
		h.release()
	case 11:
		h.advance()
	case 12:
		h.parkOrUnpark()
	case 13:
		h.addMany()
	case 14:
		h.reschedule()
	case 15:
		h.prioritize()
	case 16:
		h.restart()
	case 17:
		h.remove()
	case 18:
		h.repeat()
	}
}

// settle calls Settle until nothing is left.
func (h *history) settle() {
	for h.schedule.Unsettled() {
		if at, ok := h.schedule.NextTime(); !ok || at.After(h.now) {
			h.failf("Advance should be called at once, and NextTime is %s (%t)", at, ok)
		}
		h.schedule.Settle()
	}
}

// drain makes a step toward the end of every job. It returns false if nothing is left that
// could run.
func (h *history) drain() bool {
	switch {
	case len(h.model.runnable()) > 0:
		h.next()
	case len(h.model.in(running)) > 0:
		h.finish(running)
	case len(h.model.in(retrying)) > 0:
		h.finish(retrying)
	default:
		at, ok := h.schedule.NextTime()
		if !ok {
			return false
		}
		h.now = at
		h.advance()
	}
	return true
}

func describe(e *entry) string {
	key, until := e.Unique.Split()
	return fmt.Sprintf("%s priority=%d wait=%d by=%d scopes=%v enqueue=%v edges=%v key=%q until=%q", e.ID, e.Priority,
		unix(e.WaitUntil), unix(e.DispatchBy), e.Scopes.Names(), e.Scopes.AtPut(), e.Edges, key, until)
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func (h *history) add(e *entry) {
	err := h.schedule.Add(e, h.now)
	h.logf("Add(%s): %v", describe(e), err)
	reasons := h.model.refusals(e)
	switch {
	case h.model.isCycle(err, e):
		// An edge on the path may lead to an ended job of that ID that was
		// removed.
	case len(reasons) == 0 && err != nil:
		h.failf("%s was refused without a reason: %w", e.ID, err)
	case len(reasons) == 0:
		h.model.add(e, h.now)
	case !slices.ContainsFunc(reasons, func(applies func(error) bool) bool { return applies(err) }):
		h.failf("%s was not refused as it should be (error: %w)", e.ID, err)
	}
}

// addMany adds jobs that depend on each other, as PutMany does.
func (h *history) addMany() {
	var entries []*entry
	for range 1 + h.choose(6) {
		entries = append(entries, h.newEntry(h.id(), h.edges()))
	}
	sorted, cycles := schedule.Sort(entries)
	h.logf("Sort(%v): %v", list(entries, describe), list(sorted, func(e *entry) string { return e.ID }))
	h.compareSorted(entries, sorted, cycles)
	for _, e := range sorted {
		h.add(e)
	}
}

// compareSorted sorts in the simplest way: it repeatedly takes the first entry that depends
// on none of the others.
func (h *history) compareSorted(entries, sorted []*entry, cycles map[*entry]error) {
	left, want := slices.Clone(entries), []*entry{}
	free := func(e *entry) bool { return len(targets(left, entries, e)) == 0 }
	for slices.ContainsFunc(left, free) {
		i := slices.IndexFunc(left, free)
		want = append(want, left[i])
		left = slices.Delete(left, i, i+1)
	}
	for _, e := range left {
		var cycle *amboy.DependencyCycleError
		switch circular := leadsBack(entries, e, e, nil); {
		case circular != errors.As(cycles[e], &cycle):
			h.failf("%s depends on itself: %t, and its error is: %w", e.ID, circular, cycles[e])
		case !circular:
			want = append(want, e)
		case len(cycle.Path) < 2 || cycle.Path[0] != cycle.Path[len(cycle.Path)-1]:
			h.failf("%v is not a cycle", cycle.Path)
		}
	}
	if !slices.Equal(sorted, want) {
		h.failf("the order should be %v", list(want, func(e *entry) string { return e.ID }))
	}
}

// targets returns the entries of a set on which an entry depends.
func targets(some, set []*entry, e *entry) []*entry {
	var found []*entry
	for _, edge := range e.Edges {
		i := slices.IndexFunc(set, func(target *entry) bool { return target.ID == edge })
		if i >= 0 && slices.Contains(some, set[i]) {
			found = append(found, set[i])
		}
	}
	return found
}

// leadsBack reports whether a path leads from one entry of a set to another.
func leadsBack(set []*entry, from, to *entry, passed []*entry) bool {
	for _, target := range targets(set, set, from) {
		if target == to {
			return true
		}
		if slices.Contains(passed, target) {
			continue
		}
		passed = append(passed, target)
		if leadsBack(set, target, to, passed) {
			return true
		}
	}
	return false
}

func (h *history) next() {
	h.settle()
	e, want := h.schedule.Next(), h.model.next()
	switch {
	case e == nil && want == nil:
		h.logf("Next(): none")
	case e == nil:
		h.failf("Next gave nothing, and %s may run", want.ID)
	case want == nil:
		h.failf("Next gave %s, which may not run", e.ID)
	default:
		h.logf("Next(): %s", e.ID)
		if e.ID != want.ID {
			h.failf("Next gave %s, and %s should run before", e.ID, want.ID)
		}
	}
}

func (h *history) finish(stages ...stage) {
	j, e := h.pick(stages...)
	if j == nil {
		return
	}
	succeeded := h.choose(2) == 0
	h.logf("Finish(%s, %t)", e.ID, succeeded)
	h.schedule.Finish(e, succeeded, h.now)
	h.model.finish(j, succeeded, h.now)
	h.schedule.Finish(e, !succeeded, h.now) // changes nothing
}

func (h *history) retry() {
	j, e := h.pick(running)
	if j == nil {
		return
	}
	h.logf("Retry(%s)", e.ID)
	h.schedule.Retry(e)
	h.model.retry(j)
}

func (h *history) replace() {
	j, e := h.pick(retrying)
	if j == nil {
		return
	}
	next := h.newEntry(e.ID, e.Edges)
	if h.choose(4) > 0 {
		next.Scopes = e.Scopes
	}
	err := h.schedule.Replace(e, next, h.now)
	h.logf("Replace(%s): %v", describe(next), err)
	held := h.model.heldByOther(next, next.Scopes.AtPut())
	if held != amboy.IsDuplicateJobScopeError(err) {
		h.failf("an enqueue scope is held: %t, and the error is: %w", held, err)
		return
	}
	if !held {
		h.model.replace(j, next, h.now)
	}
}

func (h *history) release() {
	stages := []stage{running}
	if h.choose(4) == 0 {
		stages = []stage{pending, parked, running, retrying, finished}
	}
	j, e := h.pick(stages...)
	if j == nil {
		return
	}
	until := h.time()
	h.logf("Release(%s, %d)", e.ID, unix(until))
	h.schedule.Release(e, until, h.now)
	if j.stage == running {
		h.model.release(j, until, h.now)
	}
}

func (h *history) repeat() {
	stages := []stage{running}
	if h.choose(4) == 0 {
		stages = []stage{pending, parked, running, retrying, finished}
	}
	j, e := h.pick(stages...)
	if j == nil {
		return
	}
	waitUntil, dispatchBy := h.time(), h.time()
	h.logf("Repeat(%s, %d, %d)", e.ID, unix(waitUntil), unix(dispatchBy))
	h.schedule.Repeat(e, waitUntil, dispatchBy, h.now)
	if j.stage == running {
		h.model.repeat(j, waitUntil, dispatchBy, h.now)
	}
}

func (h *history) advance() {
	h.now = h.now.Add(time.Duration(h.choose(3)) * time.Second)
	expired, want := h.schedule.Advance(h.now), h.model.advance(h.now)
	h.logf("Advance(%d): %d expired", h.now.Unix(), len(expired))
	ids := func(e *entry) string { return e.ID }
	if got, wanted := list(expired, ids), list(want, func(j *modelJob) string { return j.ID }); !slices.Equal(got, wanted) {
		h.failf("%v expired, and %v should", got, wanted)
	}
}

func (h *history) parkOrUnpark() {
	if j, e := h.pick(parked); j != nil && h.choose(2) == 0 {
		h.logf("Unpark(%s)", e.ID)
		h.schedule.Unpark(e, h.now)
		h.model.resume(j, j.WaitUntil, h.now)
		return
	}
	if j, e := h.pick(pending, running); j != nil {
		h.logf("Park(%s)", e.ID)
		h.schedule.Park(e)
		h.model.park(j)
	}
}

func (h *history) reschedule() {
	stages := []stage{pending}
	if h.choose(4) == 0 {
		stages = []stage{parked, running, retrying, finished}
	}
	j, e := h.pick(stages...)
	if j == nil {
		return
	}
	until := h.time()
	h.logf("Reschedule(%s, %d)", e.ID, unix(until))
	h.schedule.Reschedule(e, until, h.now)
	switch j.stage {
	case pending:
		h.model.reschedule(j, until, h.now)
	case parked:
		j.WaitUntil = until
	}
}

func (h *history) prioritize() {
	j, e := h.pick(pending, parked, running, retrying, finished)
	if j == nil {
		return
	}
	priority := h.choose(5) - 2
	h.logf("Prioritize(%s, %d)", e.ID, priority)
	h.schedule.Prioritize(e, priority)
	j.Priority = priority
}

// pickFinished chooses one of the finished entries, including attempts.
func (h *history) pickFinished() *modelJob {
	if len(h.model.finished) == 0 {
		return nil
	}
	return h.model.finished[h.choose(len(h.model.finished))]
}

func (h *history) restart() {
	j := h.pickFinished()
	if j == nil || h.choose(4) == 0 {
		if j, _ = h.pick(pending, parked, running, retrying); j == nil {
			return
		}
	}
	restartable := h.model.restartable(j)
	edges := j.Edges
	if h.choose(4) == 0 {
		edges = nil
	}
	h.logf("Restart(%s, %s): %t", j.ID, edges, restartable)
	if h.schedule.Restartable(j.real) != restartable {
		h.failf("that %s may be restarted is not %t", j.ID, restartable)
		return
	}
	if restartable {
		h.schedule.Restart(j.real, edges, h.now)
		h.model.restart(j, edges, h.now)
	}
}

func (h *history) remove() {
	if j := h.pickFinished(); j != nil {
		h.logf("Remove(%s)", j.ID)
		h.schedule.Remove(j.real)
		h.model.remove(j)
	}
}

// list returns a property of each item.
func list[T, P any](items []T, property func(T) P) []P {
	var all []P
	for _, item := range items {
		all = append(all, property(item))
	}
	return all
}

// compare compares the Schedule with the model.
func (h *history) compare() {
	h.settle()
	h.comparePlaces()
	h.compareCounts()
	h.compareTimes()
	h.compareFinished()
	h.compareKeys()
	if missing := h.schedule.Missing(); !slices.Equal(missing, h.model.missing()) {
		h.failf("%v are missing, and %v should be", missing, h.model.missing())
	}
}

func (h *history) comparePlaces() {
	places := h.model.places()
	known := 0
	for e := range h.schedule.All {
		known++
		if place, ok := places[e.ID]; !ok || e.Place() != place {
			h.failf("%s is in place %d, and should be in %d (known: %t)", e.ID, e.Place(), place, ok)
		}
	}
	if known != len(places) || h.schedule.Len() != known {
		h.failf("%d jobs are known, Len is %d, and there should be %d", known, h.schedule.Len(), len(places))
	}
	for _, j := range h.model.jobs {
		if e, ok := h.schedule.Get(j.ID); ok && h.fault == nil {
			h.compareBlock(e, j)
		}
	}
}

func (h *history) compareBlock(e *entry, j *modelJob) {
	if got, want := describe(e), describe(j.entry); e != j.real || got != want {
		h.failf("there is %s, and should be %s", got, want)
	}
	if !slices.Equal(e.Failed(), j.failed) {
		h.failf("the edges %v of %s failed, and %v should have", e.Failed(), e.ID, j.failed)
	}
	block, want := e.Block(), schedule.Block{}
	switch e.Place() {
	case schedule.Waiting:
		want = schedule.Block{Open: len(j.open), Edges: len(j.Edges)}
	case schedule.ScopeBlocked:
		want.Scope = block.Scope
		if !h.isTaken(block.Scope, j) {
			h.failf("%s waits for scope %q, which is free for it", e.ID, block.Scope)
		}
	}
	if block != want {
		h.failf("%s waits for %+v, and should for %+v", e.ID, block, want)
	}
}

// isTaken reports whether a scope that a job needs is held by another job, or is for one that
// runs before it.
func (h *history) isTaken(scope string, j *modelJob) bool {
	if !slices.Contains(j.Scopes.Names(), scope) {
		return false
	}
	taken := h.model.others(j.entry, scope)
	for _, r := range h.model.runnable() {
		if slices.Contains(r.Scopes.Names(), scope) &&
			(r.Priority > j.Priority || (r.Priority == j.Priority && r.number < j.number)) {
			taken++
		}
	}
	return taken >= limit(scope)
}

func (h *history) compareCounts() {
	stats, want := h.schedule.Stats(), h.model.stats()
	if !assert.ObjectsAreEqual(want, stats) {
		h.failf("stats are %s, and should be %s", stats, want)
	}
	if pending := h.schedule.Pending(); pending != want.Pending {
		h.failf("%d are pending, and %d should be", pending, want.Pending)
	}
	if ready := h.schedule.Ready(); ready != len(h.model.runnable()) {
		h.failf("%d are ready, and %d should be", ready, len(h.model.runnable()))
	}
	if idle := want.Pending+want.Running+want.Retrying == 0; h.schedule.Idle() != idle {
		h.failf("idle is not %t", idle)
	}
}

func (h *history) compareTimes() {
	at, ok := h.schedule.NextTime()
	want, wanted := h.model.nextTime()
	if ok != wanted || !at.Equal(want) {
		h.failf("the next time is %s (%t), and should be %s (%t)", at, ok, want, wanted)
	}
}

func (h *history) compareFinished() {
	kept := slices.Collect(h.schedule.Finished)
	if len(kept) != len(h.model.finished) {
		h.failf("%d finished entries are kept, and %d should be", len(kept), len(h.model.finished))
		return
	}
	for i, j := range h.model.finished {
		if kept[i] != j.real {
			h.failf("finished entry %d is %s, and should be %s", i, kept[i].ID, j.ID)
		}
	}
}

// compareKeys compares the holders of the unique keys.
func (h *history) compareKeys() {
	for _, key := range keys {
		holder, held := h.model.keys[key]
		err := h.schedule.Duplicate(&entry{ID: "probe", Unique: schedule.NewUnique(key, "")})
		switch {
		case held != (err != nil):
			h.failf("that key %q is held is not %t: %w", key, held, err)
		case held && !strings.Contains(err.Error(), strconv.Quote(holder)):
			h.failf("key %q is held by %s, and the error is: %w", key, holder, err)
		}
	}
}

var histories = flag.Uint64("schedule.histories", 150, "how many random histories TestRandomHistories compares with the model")

func TestRandomHistories(t *testing.T) {
	seed := rand.Uint64()
	const steps = 60
	for i := range *histories {
		c := &randomChoices{Rand: rand.New(rand.NewPCG(seed, i)), steps: steps}
		require.NoError(t, runHistory(c), "history %d of seed %d", i, seed)
	}
}

func FuzzHistory(f *testing.F) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, seed))
		history := make([]byte, 200)
		for i := range history {
			history[i] = byte(random.Uint32())
		}
		f.Add(history)
	}
	f.Fuzz(func(t *testing.T, history []byte) {
		if len(history) > 4096 {
			return
		}
		c := byteChoices(history)
		require.NoError(t, runHistory(&c))
	})
}
