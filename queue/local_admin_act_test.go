package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// adminKinds are queues that must respond alike to administration: one holds jobs by
// reference, one stores them.
var adminKinds = []func(t *testing.T) amboy.Queue{
	func(t *testing.T) amboy.Queue {
		q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 3, PutBeforeStart: true})
		require.NoError(t, err)
		return q
	},
	func(t *testing.T) amboy.Queue {
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newStore(t), Format: amboy.JSON, NumWorkers: 3})
		require.NoError(t, err)
		return q
	},
}

// administered is a queue with the driver.Admin of its store.
type administered struct {
	t     *testing.T
	queue amboy.Queue
	admin driver.Admin
	name  string // of the queue in admin
}

// onAdminKinds runs a test with a started queue of each kind, each in its own bubble. It
// checks that both returned the same value, and returns it.
func onAdminKinds[R any](t *testing.T, test func(a administered) R) R {
	t.Helper()
	var results []R
	for _, build := range adminKinds {
		synctest.Test(t, func(t *testing.T) {
			q := build(t)
			defer q.Close(context.Background())
			results = append(results, test(administer(t, q)))
		})
	}
	assert.Equal(t, results[1], results[0], "a stored queue and a local queue")
	return results[0]
}

// administer starts a queue, and returns it with its driver.Admin.
func administer(t *testing.T, q amboy.Queue) administered {
	t.Helper()
	require.NoError(t, q.Start(t.Context()))
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	return administered{t, q, store.Admin(), store.Queues()[0]}
}

// all returns a query for the jobs of the queue.
func (a administered) all() driver.Query { return driver.Query{Queues: []string{a.name}} }

// jobs returns a query for some jobs of the queue.
func (a administered) jobs(ids ...string) driver.Query {
	q := a.all()
	q.JobIDs = ids
	return q
}

func (a administered) act(q driver.Query, action driver.Action) driver.Acted {
	a.t.Helper()
	acted, err := a.admin.Act(a.t.Context(), driver.ActRequest{Query: q, Action: action, Limit: 1000})
	require.NoError(a.t, err)
	return acted
}

// find returns the records that a query selects, read page by page.
func (a administered) find(q driver.Query, page driver.PageRequest) (found []*driver.Record) {
	a.t.Helper()
	for {
		p, err := a.admin.Find(a.t.Context(), q, page)
		require.NoError(a.t, err)
		require.LessOrEqual(a.t, len(p.Records), page.Limit)
		found = append(found, p.Records...)
		if p.Next == "" {
			return found
		}
		page.After = p.Next
	}
}

// outcome is the visible state of a job that does not depend on the kind of queue.
type outcome struct {
	ID              string
	State           amboy.JobState
	Status          amboy.JobStatusInfo
	Times           amboy.JobTimeInfo
	Priority        int      `json:",omitempty"`
	Held            []string `json:",omitempty"`
	Scopes          []string `json:",omitempty"`
	Tags            []string `json:",omitempty"`
	Failed          []string `json:",omitempty"`
	CancelRequested bool     `json:",omitempty"`
	Attempt         int      `json:",omitempty"`
}

// outcomes returns the outcomes of all jobs in the order of arrival, each as one line.
func (a administered) outcomes() (all []string) {
	a.t.Helper()
	for _, r := range a.find(a.all(), driver.PageRequest{Limit: 3}) {
		line, err := json.Marshal(outcomeOf(r))
		require.NoError(a.t, err)
		all = append(all, string(line))
	}
	return all
}

func outcomeOf(r *driver.Record) outcome {
	o := outcome{
		ID: r.JobID(), State: driver.StateOf(r, time.Now()), Status: r.Status, Times: r.TimeInfo, Priority: r.Priority,
		Held: r.Scopes, Scopes: r.RequiredScopes, Tags: r.Tags, CancelRequested: r.CancelRequested,
		Attempt: r.RetryInfo.CurrentAttempt,
	}
	if r.Dependency != nil {
		o.Failed = r.Dependency.Failed
	}
	slices.Sort(o.Held)
	// The owner's name differs, and stored queues also count claims and renewals.
	o.Status.Owner, o.Status.ModificationTime, o.Status.ModificationCount = "", time.Time{}, 0
	if o.State == amboy.StateExpired {
		o.Times.Start = time.Time{} // a stored queue claims the job to end it
	}
	if o.State == amboy.StateCanceled && !o.Times.Start.IsZero() {
		o.Times.End, o.Status.Attempts = time.Time{}, nil // It ends when its process finds it.
	}
	if o.State == amboy.StateCanceled {
		o.Failed = nil // A store does not have to pass them to jobs that never run.
	}
	return o
}

// inEveryState pauses the queue, and puts a job in each state. The ID of a job names its
// state. The running job ends with its context, or after two hours.
func (a administered) inEveryState() {
	t := a.t
	t.Helper()
	running := newJob(t, "running", func(ctx context.Context, j *funcJob) {
		select {
		case <-ctx.Done():
			j.AddRetryableError(context.Cause(ctx))
		case <-time.After(2 * time.Hour):
		}
	})
	running.SetScopes([]string{"busy", "kept"})
	running.SetEnqueueScopes("kept")
	running.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
	failed := newJob(t, "failed", func(_ context.Context, j *funcJob) { j.AddError(errors.New("no luck")) })
	failed.SetTags([]string{"red"})
	put(t, a.queue, noop(t, "succeeded"), failed, running)
	synctest.Wait()
	require.NoError(t, controlled(t, a.queue).Pause(t.Context()))

	scope, edge, scheduled, expired := noop(t, "scope"), noop(t, "edge"), noop(t, "scheduled"), noop(t, "expired")
	scope.SetScopes([]string{"busy"})
	require.NoError(t, edge.Dependency().AddEdge("running"))
	scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	scheduled.SetScopes([]string{"soon"})
	scheduled.SetEnqueueAllScopes(true)
	expired.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Second)})
	put(t, a.queue, scope, edge, scheduled, noop(t, "pending"), noop(t, "parked"), noop(t, "canceled"), expired)
	a.act(a.jobs("parked"), driver.Action{Kind: driver.Park, Reason: "it looks odd"})
	a.act(a.jobs("canceled"), driver.Action{Kind: driver.Cancel, Reason: "not needed"})
	pass(2 * time.Second)
}

// everyStates lists the jobs of inEveryState, in their order.
var everyStates = []struct {
	id    string
	state amboy.JobState
}{
	{"succeeded", amboy.StateSucceeded},
	{"failed", amboy.StateFailed},
	{"running", amboy.StateRunning},
	{"scope", amboy.StateBlocked},
	{"edge", amboy.StateBlocked},
	{"scheduled", amboy.StateScheduled},
	{"pending", amboy.StatePending},
	{"parked", amboy.StateParked},
	{"canceled", amboy.StateCanceled},
	{"expired", amboy.StateExpired},
}

// allowedActs lists the jobs of inEveryState that each action applies to.
var allowedActs = map[driver.ActionKind][]string{
	driver.Cancel:     {"running", "scope", "edge", "scheduled", "pending", "parked"},
	driver.RunNow:     {"scheduled"},
	driver.Reschedule: {"scope", "edge", "scheduled", "pending"},
	driver.Prioritize: {"running", "scope", "edge", "scheduled", "pending", "parked"},
	driver.Park:       {"scope", "edge", "scheduled", "pending"},
	driver.Edit:       {"scope", "edge", "scheduled", "pending", "parked"},
	driver.Unpark:     {"parked"},
	driver.Restart:    {"failed", "canceled", "expired"},
	driver.Delete:     {"succeeded", "failed", "canceled", "expired"},
}

// history is the state of the jobs of inEveryState after an action, some time later, and
// at the end.
type history struct {
	Done                       []string
	Before, Acted, Later, Last []string
	Listed                     map[string]amboy.JobState // listed by the queue itself, after the action
	Counts                     []amboy.QueueStats
}

func TestActionsOnLocalAndStoredQueuesAreEqual(t *testing.T) {
	for _, kind := range driver.ActionKinds() {
		t.Run(string(kind), func(t *testing.T) {
			seen := onAdminKinds(t, func(a administered) (h history) {
				count := func() {
					stats, err := a.admin.Stats(a.t.Context(), a.name)
					require.NoError(a.t, err)
					h.Counts = append(h.Counts, stats)
				}
				a.inEveryState()
				h.Before = a.outcomes()
				count()
				action := driver.Action{Kind: kind, At: time.Now().Add(30 * time.Minute), Priority: 7, Reason: "somebody wants it"}
				for _, state := range everyStates {
					id := state.id
					r, err := a.admin.Get(a.t.Context(), a.name, id)
					require.NoError(a.t, err)
					action.Edit = &driver.EditedFields{Count: r.Status.ModificationCount, Priority: new(7), WaitUntil: &action.At}
					dry, err := a.admin.Act(a.t.Context(), driver.ActRequest{Query: a.jobs(id), Action: action, Limit: 1, DryRun: true})
					require.NoError(a.t, err)
					acted := a.act(a.jobs(id), action)
					dry.Next = ""
					require.Equal(a.t, dry, acted, "DryRun and the action itself")
					if acted.Done > 0 {
						h.Done = append(h.Done, id)
					}
				}
				h.Acted = a.outcomesBeforeTheRunEnds(kind)
				if kind != driver.Cancel {
					count()
					h.Listed = map[string]amboy.JobState{}
					for info := range a.queue.JobInfo(a.t.Context()) {
						h.Listed[info.ID] = info.State
					}
				}
				pass(10 * time.Minute)
				h.Later = a.outcomes()
				require.NoError(a.t, controlled(a.t, a.queue).Resume(a.t.Context()))
				pass(3 * time.Hour)
				h.Last = a.outcomes()
				count()
				return h
			})
			assert.Equal(t, allowedActs[kind], seen.Done)
			require.Len(t, seen.Before, len(everyStates))
			for i, state := range everyStates {
				assert.Contains(t, seen.Before[i], fmt.Sprintf(`{"ID":%q,"State":%q,`, state.id, state.state))
			}
		})
	}
}

// outcomesBeforeTheRunEnds leaves out the running job if it was canceled, because it may
// end at once or a little later.
func (a administered) outcomesBeforeTheRunEnds(kind driver.ActionKind) []string {
	return slices.DeleteFunc(a.outcomes(), func(line string) bool {
		return kind == driver.Cancel && strings.HasPrefix(line, `{"ID":"running"`)
	})
}

// TestReasonOfACanceledRun cancels running jobs, which then end in each possible way.
func TestReasonOfACanceledRun(t *testing.T) {
	ways := map[string]func(ctx context.Context, j *funcJob){
		"fails with the cause": func(ctx context.Context, j *funcJob) { j.AddError(context.Cause(ctx)) },
		"fails":                func(_ context.Context, j *funcJob) { j.AddError(errors.New("no luck")) },
		"retries":              func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no luck")) },
		"snoozes":              func(_ context.Context, j *funcJob) { j.Snooze(time.Now().Add(time.Hour)) },
		"succeeds":             func(context.Context, *funcJob) {},
	}
	for way, end := range ways {
		t.Run(way, func(t *testing.T) {
			got := onAdminKinds(t, func(a administered) string {
				put(a.t, a.queue, retryable(newJob(a.t, "job", func(ctx context.Context, j *funcJob) {
					<-ctx.Done()
					end(ctx, j)
				}), 5))
				synctest.Wait()
				a.act(a.all(), driver.Action{Kind: driver.Cancel, Reason: "wrong one"})
				pass(time.Minute)
				r, err := a.admin.Get(a.t.Context(), a.name, "job")
				require.NoError(a.t, err)
				return fmt.Sprintf("%s: %s", driver.StateOf(r, time.Now()), r.Status.Reason)
			})
			want := "canceled: wrong one"
			if way == "succeeds" {
				want = "succeeded: "
			}
			assert.Equal(t, want, got)
		})
	}
}

// TestReasonOfACanceledRunThatFailsUnnoticed cancels a job that has already failed. The
// queue learns of the failure only when it writes the end.
func TestReasonOfACanceledRunThatFailsUnnoticed(t *testing.T) {
	got := onAdminKinds(t, func(a administered) string {
		put(a.t, a.queue, newJob(a.t, "job", func(_ context.Context, j *funcJob) {
			j.AddError(errors.New("no luck"))
			a.act(a.all(), driver.Action{Kind: driver.Cancel, Reason: "wrong one"}) //nolint:contextcheck // It is done with the test's.
		}))
		pass(time.Minute)
		r, err := a.admin.Get(a.t.Context(), a.name, "job")
		require.NoError(a.t, err)
		return fmt.Sprintf("%s: %s", driver.StateOf(r, time.Now()), r.Status.Reason)
	})
	assert.Equal(t, "canceled: wrong one", got)
}

// Samples had ended with the last job, and began again only with the next Put.
func TestNoBacklogWasRecordedOfAJobThatAnOperatorRetried(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		put(t, a.queue, newJob(t, "job", func(_ context.Context, j *funcJob) { j.AddError(errors.New("bad luck")) }))
		drain(t, a.queue)
		pass(5 * time.Minute)
		from := activity.KeyOf(time.Now())
		a.act(a.all(), driver.Action{Kind: driver.Restart, At: time.Now().Add(time.Hour)})
		pass(5 * time.Minute)
		samples, err := a.admin.Notes(t.Context(), driver.NoteRequest{Kind: activity.BacklogMinuteKind, From: from, Limit: 10})
		require.NoError(t, err)
		assert.NotEmpty(t, samples)
	})
}
