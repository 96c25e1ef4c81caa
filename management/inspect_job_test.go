package management_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// letter contains the arguments of a job of job.Define.
type letter struct {
	To     string    `bson:"to" json:"to"`
	Copies int       `bson:"copies" json:"copies"`
	Send   time.Time `bson:"send,omitempty" json:"send,omitzero"`
}

var post = job.DefineResult("post", 1, func(_ context.Context, l letter) (string, error) {
	if l.To == "" {
		return "", assert.AnError
	}
	return "sent to " + l.To, nil
}, job.Defaults[letter]{
	Tags: []string{"mail"}, MaxAttempts: 1, Timeout: time.Minute,
	Scopes: func(l letter) []string { return []string{"box " + l.To} },
})

func TestJobThatSucceeded(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		_, err := post.Put(f.ctx, f.queue, letter{To: "ann", Copies: 2}, job.ID("letter"))
		require.NoError(f, err)
		f.wait("letter")
		j := f.job("letter")
		assert.Equal(f, amboy.StateSucceeded, j.State)
		assert.JSONEq(f, `{"to":"ann","copies":2}`, withoutTime(f, j.Args))
		assert.JSONEq(f, `"sent to ann"`, string(j.Result))
		assert.Empty(f, j.ArgsHidden+j.ResultHidden)
		assert.InDelta(f, 60, j.MaxTime, 0)
		assert.Empty(f, j.Errors)
		assert.Equal(f, []management.ScopeUse{{Name: "box ann"}}, j.Scopes)
		assert.Equal(f, []string{"created", "started", "succeeded"}, whats(j.Timeline))
		require.Len(f, j.Attempts, 1)
		assert.Equal(f, amboy.StateSucceeded, j.Attempts[0].State)
		assert.False(f, j.Attempts[0].Started.IsZero())
		assert.False(f, j.Attempts[0].Ended.Before(j.Attempts[0].Started))
	})
}

func TestUniqueKeyIsShownWithTheStatesInWhichItCounts(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		_, err := post.Put(f.ctx, f.queue, letter{To: "ann"}, job.ID("letter"), job.Unique(job.Uniqueness{Key: "ann's"}))
		require.NoError(f, err)
		f.wait("letter")
		j := f.job("letter")
		assert.NotEmpty(f, j.UniqueKey)
		assert.Equal(f, []amboy.JobState{
			amboy.StateScheduled, amboy.StatePending, amboy.StateBlocked, amboy.StateParked, amboy.StateRunning, amboy.StateRetrying,
		}, j.UniqueStates)
		if j.Owner != "" {
			assert.Equal(f, []string{j.Owner}, j.AttemptedBy)
		}
	})
}

// withoutTime removes a time that one format writes even if it is zero.
func withoutTime(f *inspected, args json.RawMessage) string {
	f.Helper()
	var fields map[string]any
	require.NoError(f, json.Unmarshal(args, &fields), "%s", args)
	delete(fields, "send")
	left, err := json.Marshal(fields)
	require.NoError(f, err)
	return string(left)
}

// whats returns the texts of the past moments of a timeline.
func whats(timeline []management.Moment) []string {
	var all []string
	for _, m := range timeline {
		if !m.Future {
			all = append(all, m.What)
		}
	}
	return all
}

func TestLastErrorIsTheJobsOwnAndNotTheQueues(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		j := doing(f.T, "never", "alpha", func(_ context.Context, j *task) {
			j.AddRetryableError(errors.New("no route to host"))
		})
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(2)})
		f.put(j)
		f.wait("never")
		got := f.job("never")
		assert.Equal(f, amboy.StateFailed, got.State)
		assert.Equal(f, "no route to host", got.Error)
		last := got.Attempts[len(got.Attempts)-1]
		assert.Equal(f, []string{"no route to host"}, last.Errors)
		end := got.Timeline[slices.IndexFunc(got.Timeline, func(m management.Moment) bool { return m.What == "failed (attempt 2)" })]
		assert.Equal(f, "no route to host", end.Detail)
		require.Len(f, got.Errors, 3)
		assert.True(f, got.Errors[2].Bookkeeping)
		assert.Contains(f, got.Errors[2].Error, "maximum attempt limit")
		assert.Contains(f, whats(got.Timeline), "error of the queue (attempt 2)")

		for text, want := range map[string]int{"no route": 1, "attempt limit": 0} {
			page, err := f.FindJobs(f.ctx, management.JobFilter{IDs: []string{"never"}, Error: text}, management.PageRequest{})
			require.NoError(f, err)
			assert.Len(f, page.Jobs, want, text)
		}
	})
}

func TestJobThatWasRetried(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		j := doing(f.T, "twice", "alpha", func(_ context.Context, j *task) {
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(&amboy.PanicError{Value: "boom", Stack: []byte("main.go:1")})
			}
		})
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(3), WaitUntil: new(time.Millisecond)})
		f.put(j)
		f.wait("twice")
		got := f.job("twice")
		assert.Equal(f, amboy.StateSucceeded, got.State)
		assert.Equal(f, 1, got.Attempt)
		assert.Equal(f, 3, got.MaxAttempts)
		require.Len(f, got.Errors, 1)
		assert.Equal(f, "main.go:1", got.Errors[0].Stack)
		assert.Contains(f, got.Errors[0].Error, "boom")
		whats := whats(got.Timeline)
		assert.Contains(f, whats, "error (attempt 1)")
		assert.Contains(f, whats, "created again (attempt 2)")
		assert.Contains(f, whats, "started (attempt 2)")
		assert.Equal(f, "succeeded (attempt 2)", whats[len(whats)-1])
		if f.stored {
			require.Len(f, got.Attempts, 2)
			assert.Len(f, got.AttemptedBy, 2)
			assert.Equal(f, amboy.StateFailed, got.Attempts[0].State)
			assert.Equal(f, amboy.StateSucceeded, got.Attempts[1].State)
			assert.Equal(f, []string{"created", "started (attempt 1)", "error (attempt 1)", "failed (attempt 1)"}, whats[:4])
		}
	})
}

func TestJobThatIsRunning(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		told := make(chan struct{})
		j := doing(f.T, "long", "alpha", func(ctx context.Context, j *task) {
			ctx = job.NewContext(ctx, j)
			job.Log(ctx, "line %d", 1)
			j.AddError(job.SetProgress(ctx, 0.25, "a quarter"))
			close(told)
			select {
			case <-f.released:
			case <-ctx.Done():
			}
		})
		j.SetScopes([]string{"ledger"})
		f.put(j)
		waits := newTask("waits", "beta")
		waits.SetScopes([]string{"ledger"})
		<-told
		f.put(waits)

		got := f.job("long")
		assert.InDelta(f, 0.25, *got.Progress, 0.001)
		assert.Equal(f, "a quarter", got.ProgressMessage)
		require.Len(f, got.Log, 1)
		assert.Equal(f, "line 1", got.Log[0].Text)
		long := management.JobRef{Queue: f.name, ID: "long"}
		assert.Equal(f, []management.ScopeUse{{Name: "ledger", Held: true, Holder: &long}}, got.Scopes)
		assert.Equal(f, []string{"created", "started"}, whats(got.Timeline))

		waiting := f.job("waits")
		assert.Equal(f, amboy.StateBlocked, waiting.State)
		assert.Equal(f, []management.ScopeUse{{
			Name: "ledger", Holder: &long, HolderState: amboy.StateRunning, HolderSince: waiting.Scopes[0].HolderSince,
		}}, waiting.Scopes)
		assert.WithinDuration(f, got.Started, waiting.Scopes[0].HolderSince, time.Millisecond)
		assert.Equal(f, []string{"created", "blocked"}, whats(waiting.Timeline))
		assert.Contains(f, waiting.Timeline[1].Detail, "ledger")

		scopes, err := f.Scopes(f.ctx, management.ScopeFilter{Queues: []string{f.name}}, management.PageRequest{})
		require.NoError(f, err)
		require.Len(f, scopes.Scopes, 1)
		scope := scopes.Scopes[0]
		assert.WithinDuration(f, got.Started, scope.Since, time.Millisecond)
		scope.Since = time.Time{}
		assert.Equal(f, management.Scope{
			Queue: f.name, Name: "ledger", Holder: long, State: amboy.StateRunning, Waiting: management.Count{Count: 1},
		}, scope)

		processes, err := f.Processes(f.ctx)
		require.NoError(f, err)
		// That of an earlier test may be there still, which has closed its queue without waiting.
		at := slices.IndexFunc(processes, func(p management.Process) bool { return p.ID == got.Owner })
		require.GreaterOrEqual(f, at, 0)
		assert.True(f, processes[at].Alive)
		assert.Equal(f, management.Count{Count: 1}, processes[at].RunningCount)
		require.Len(f, processes[at].Running, 1)
		assert.Equal(f, "long", processes[at].Running[0].ID)
		require.NotEmpty(f, processes[at].Queues)
		assert.Contains(f, processes[at].Queues, management.ProcessQueue{Name: f.name, Workers: workers, Started: true})
	})
}

func TestTimelineOfAScheduledJob(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		j := newTask("later", "alpha")
		j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour(), DispatchBy: inAnHour().Add(time.Hour)})
		f.put(j)
		timeline := f.job("later").Timeline
		require.Len(f, timeline, 3)
		assert.Equal(f, "created", timeline[0].What)
		assert.Equal(f, "due", timeline[1].What)
		assert.True(f, timeline[1].Future)
		assert.Equal(f, "expires unless started", timeline[2].What)
		assert.True(f, timeline[2].Future)
	})
}

// follows returns a task that depends on others.
func follows(id string, others ...string) *task {
	j := newTask(id, "alpha")
	d := dependency.NewAlways()
	for _, other := range others {
		if err := d.AddEdge(other); err != nil {
			panic(err)
		}
	}
	j.SetDependency(d)
	return j
}

func TestDependencies(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		later := newTask("base", "alpha")
		later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
		f.put(f.fail("bad", "beta"))
		f.wait("bad")
		f.put(later, follows("left", "base", "bad"), follows("right", "base"), follows("top", "left", "right"))

		left := f.job("left")
		ref := func(id string) management.JobRef { return management.JobRef{Queue: f.name, ID: id} }
		assert.ElementsMatch(f, []management.Dependency{
			{JobRef: ref("base"), State: amboy.StateScheduled, Type: "alpha"},
			{JobRef: ref("bad"), State: amboy.StateFailed, Type: "beta", Failed: true},
		}, left.DependsOn)
		assert.Equal(f, []management.Dependency{{JobRef: ref("top"), State: amboy.StateBlocked, Type: "alpha"}}, left.Dependents)
		assert.Equal(f, amboy.StateBlocked, left.State)

		graph, err := f.Graph(f.ctx, f.name, "left", 1)
		require.NoError(f, err)
		assert.False(f, graph.Truncated)
		assert.Equal(f, map[string]int{"base": -1, "bad": -1, "left": 0, "top": 1}, distances(graph))
		graph, err = f.Graph(f.ctx, f.name, "base", 5)
		require.NoError(f, err)
		assert.Equal(f, map[string]int{"base": 0, "left": 1, "right": 1, "top": 2}, distances(graph))
		assert.ElementsMatch(f, []management.GraphEdge{
			{From: "left", To: "base"}, {From: "right", To: "base"}, {From: "top", To: "left"}, {From: "top", To: "right"},
		}, graph.Edges)
		for _, j := range graph.Jobs {
			assert.Equal(f, j.ID != "top", j.Holds, "%s: no job waits for top", j.ID)
		}
		graph, err = f.Graph(f.ctx, f.name, "bad", 1)
		require.NoError(f, err)
		require.Equal(f, map[string]int{"bad": 0, "left": 1}, distances(graph))
		assert.False(f, graph.Jobs[0].Holds)
	})
}

func distances(g management.Graph) map[string]int {
	d := map[string]int{}
	for _, j := range g.Jobs {
		d[j.ID] = j.Distance
	}
	return d
}

func TestALargeGraphIsTruncated(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		base := newTask("base", "alpha")
		base.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
		jobs := []amboy.Job{base}
		var ids []string
		for k := range management.MaxGraphJobs {
			ids = append(ids, string(rune('a'+k/26))+string(rune('a'+k%26)))
			jobs = append(jobs, follows(ids[k], "base"))
		}
		f.put(append(jobs, follows("top", ids...))...)
		for _, id := range []string{"base", "top"} {
			graph, err := f.Graph(f.ctx, f.name, id, 1)
			require.NoError(f, err)
			assert.True(f, graph.Truncated, id)
			assert.Len(f, graph.Jobs, management.MaxGraphJobs, id)
			assert.Len(f, graph.Edges, management.MaxGraphJobs-1, id)
		}
		got := f.job("base")
		assert.Len(f, got.Dependents, management.DefaultLimit)
		assert.True(f, got.MoreDependents)
		assert.Len(f, f.job("top").DependsOn, management.MaxGraphJobs)
	})
}

// A job that this process can't decode is shown all the same.
func TestJobThatCannotBeDecodedIsShown(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		if !f.stored {
			f.Skip("jobs by reference are not encoded")
		}
		for name, test := range map[string]struct {
			body         registry.Body
			args, hidden string
		}{
			"unknown type": {registry.NewBody([]byte(`{"a":[1,{"b":null}]}`), true), `{"a":[1,{"b":null}]}`, ""},
			"not JSON":     {registry.NewBody([]byte(`{"a":`), true), "", "stored form"},
			"not BSON":     {registry.NewBody([]byte{5, 0, 0}, false), "", "stored form"},
			"nothing":      {registry.Body{}, "", "no stored form"},
		} {
			errs, err := f.store().Driver().Insert(f.ctx, []*driver.Record{{
				Name: driver.RecordName(f.name, name, amboy.JobRetryInfo{}), Group: f.name, Type: "from elsewhere", Job: test.body,
				TimeInfo: amboy.JobTimeInfo{Created: time.Now(), WaitUntil: inAnHour()},
			}})
			if err != nil || errs[0] != nil {
				continue // the store refuses it
			}
			got := f.job(name)
			if test.args != "" {
				assert.JSONEq(f, test.args, string(got.Args), name)
			} else {
				assert.Nil(f, got.Args, name)
			}
			assert.Contains(f, got.ArgsHidden, test.hidden, name)
		}
		assert.Equal(f, "from elsewhere", f.job("unknown type").Type)
	})
}
