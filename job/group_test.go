package job_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mongodb/grip/level"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// member is a sub-job. It counts its runs in a stored field.
type member struct {
	Runs     int `bson:"runs" json:"runs"`
	job.Base `bson:"job_base" json:"job_base"`
}

// behaviors maps the IDs of members to what they do.
var behaviors sync.Map

func (m *member) Run(ctx context.Context) {
	m.Runs++
	if do, ok := behaviors.Load(m.ID()); ok {
		do.(func(context.Context, *member))(ctx, m)
	}
	m.MarkComplete()
}

func init() {
	registry.AddJobType("member", func() amboy.Job { return makeMember() })
}

func makeMember() *member {
	return &member{Base: job.Base{JobType: amboy.JobType{Name: "member"}}}
}

// newMember makes a sub-job; do may be nil.
func newMember(t *testing.T, id string, do func(context.Context, *member)) *member {
	t.Helper()
	m := makeMember()
	m.SetID(t.Name() + "/" + id)
	if do != nil {
		behaviors.Store(m.ID(), do)
		t.Cleanup(func() { behaviors.Delete(m.ID()) })
	}
	return m
}

func fail(_ context.Context, m *member) { m.AddError(errors.New("no")) }

func newGroup(t *testing.T, members ...*member) *job.Group {
	t.Helper()
	g := job.NewGroup("group")
	for _, m := range members {
		require.NoError(t, g.Add(m))
	}
	return g
}

// stored decodes a sub-job from the group.
func stored(t *testing.T, g *job.Group, id string) *member {
	t.Helper()
	form, ok := g.Jobs[id]
	require.True(t, ok)
	j, err := form.Resolve(amboy.BSON)
	require.NoError(t, err)
	return j.(*member)
}

func TestGroupGathersResults(t *testing.T) {
	good := newMember(t, "good", nil)
	bad := newMember(t, "bad", fail)
	panicking := newMember(t, "panicking", func(context.Context, *member) { panic("oh") })
	slow := newMember(t, "slow", func(ctx context.Context, _ *member) { <-ctx.Done() })
	slow.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: time.Millisecond})
	exiting := newMember(t, "exiting", func(context.Context, *member) { runtime.Goexit() })
	g := newGroup(t, good, bad, panicking, slow, exiting)

	err := amboy.RunJob(t.Context(), g)
	require.Error(t, err)
	assert.Equal(t, 4, g.Status().ErrorCount, "%v", err)
	for id, message := range map[string]string{
		bad.ID():       "no",
		panicking.ID(): "panic: oh",
		exiting.ID():   "goroutine ended before Run returned",
		slow.ID():      "maximum time",
	} {
		require.ErrorContains(t, err, `job "`+id+`" of group "group": `)
		require.ErrorContains(t, err, message)
	}
	for _, m := range []*member{good, bad, slow} {
		after := stored(t, g, m.ID())
		assert.Equal(t, 1, after.Runs)
		assert.True(t, after.Status().Completed)
		assert.False(t, after.Status().InProgress)
		assert.False(t, after.TimeInfo().End.IsZero())
	}
	require.NoError(t, stored(t, g, good.ID()).Error())
	require.EqualError(t, stored(t, g, bad.ID()).Error(), "no")
	assert.NotEmpty(t, stored(t, g, panicking.ID()).Status().Attempts[0].Stack)
	assert.False(t, stored(t, g, exiting.ID()).Status().Completed)
	assert.Zero(t, good.Runs, "a group runs copies")
}

func TestGroupRunsInParallel(t *testing.T) {
	one, two := make(chan struct{}), make(chan struct{})
	g := newGroup(t,
		newMember(t, "one", func(context.Context, *member) { close(one); <-two }),
		newMember(t, "two", func(context.Context, *member) { close(two); <-one }),
	)
	require.NoError(t, amboy.RunJob(t.Context(), g), "each waits for the other")
	assert.True(t, g.Status().Completed)
}

// unencodable is a job that can't be encoded.
type unencodable struct {
	Channel  chan int
	job.Base `bson:"job_base"`
}

func (*unencodable) Run(context.Context) {}

func TestGroupAddErrors(t *testing.T) {
	registry.AddJobType("unencodable", func() amboy.Job { return &unencodable{} })
	broken := &unencodable{Channel: make(chan int), Base: job.Base{Name: "broken", JobType: amboy.JobType{Name: "unencodable"}}}
	unregistered := &task{}
	unregistered.SetID("unregistered")
	first := newMember(t, "first", nil)

	for name, test := range map[string]struct {
		job   amboy.Job
		check func(error) bool
	}{
		"nil":          {nil, isA[*amboy.InvalidJobError]},
		"nil pointer":  {(*member)(nil), isA[*amboy.InvalidJobError]},
		"no ID":        {makeMember(), isA[*amboy.InvalidJobError]},
		"zero group":   {&job.Group{}, isA[*amboy.InvalidJobError]},
		"duplicate":    {first, amboy.IsDuplicateJobError},
		"unregistered": {unregistered, isA[*registry.UnknownTypeError]},
		"unencodable":  {broken, func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			g := job.NewGroup("group")
			require.NoError(t, g.Add(first))
			err := g.Add(test.job)
			assert.True(t, test.check(err), "%v", err)
			require.ErrorContains(t, err, `group "group"`)
			assert.Len(t, g.Jobs, 1)
		})
	}
}

func isA[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func TestGroupRoundTrip(t *testing.T) {
	for _, f := range []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON} {
		t.Run(f.String(), func(t *testing.T) {
			good, bad := newMember(t, "good", nil), newMember(t, "bad", fail)
			bad.SetScopes([]string{"scope"})
			g := newGroup(t, good, bad)
			require.NoError(t, g.Dependency().AddEdge("first"))

			got := groupThrough(t, g, f)
			assert.Equal(t, g.ID(), got.ID())
			assert.Equal(t, g.Type(), got.Type())
			assert.Equal(t, g.Dependency(), got.Dependency())
			assert.Equal(t, []string{"scope"}, stored(t, got, bad.ID()).Scopes())

			require.ErrorContains(t, amboy.RunJob(t.Context(), got), bad.ID())
			after := groupThrough(t, got, f)
			assert.Equal(t, 1, stored(t, after, good.ID()).Runs)
			require.EqualError(t, stored(t, after, bad.ID()).Error(), "no")
		})
	}
}

func TestGroupIgnoresADependencyOtherThanAlways(t *testing.T) {
	for name, manager := range map[string]dependency.Manager{
		"nil":          nil,
		"another type": dependency.NewCreatesFile("/nonexistent"),
	} {
		t.Run(name, func(t *testing.T) {
			log := captureLog(t)
			g := job.NewGroup("group")
			before := g.Dependency()
			g.SetDependency(manager)
			assert.Same(t, before, g.Dependency())
			require.True(t, log.HasMessage())
			logged := log.GetMessage()
			assert.Equal(t, level.Warning, logged.Priority)
			assert.Contains(t, logged.Rendered, "group")
		})
	}

	log := captureLog(t)
	g := job.NewGroup("group")
	always := dependency.NewAlways()
	g.SetDependency(always)
	assert.Same(t, always, g.Dependency())
	assert.False(t, log.HasMessage())
}

func groupThrough(t *testing.T, g *job.Group, f amboy.Format) *job.Group {
	t.Helper()
	made, err := registry.MakeJobInterchange(g, f)
	require.NoError(t, err)
	data, err := made.Encode(f)
	require.NoError(t, err)
	read, err := registry.DecodeJobInterchange(data, f)
	require.NoError(t, err)
	resolved, err := read.Resolve(f)
	require.NoError(t, err)
	return resolved.(*job.Group)
}

func TestGroupInGroup(t *testing.T) {
	bad := newMember(t, "bad", fail)
	inner := job.NewGroup("inner")
	require.NoError(t, inner.Add(bad))
	outer := job.NewGroup("outer")
	require.NoError(t, outer.Add(inner))
	err := amboy.RunJob(t.Context(), groupThrough(t, outer, amboy.JSON))
	require.EqualError(t, err, `job "inner" of group "outer": job "`+bad.ID()+`" of group "inner": no`)
}

func TestGroupWhoseContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutting down"))
	m := newMember(t, "member", nil)
	g := newGroup(t, m)
	g.Run(ctx)
	require.ErrorContains(t, g.Error(), "not run: shutting down")
	assert.False(t, g.Status().Completed)
	assert.Zero(t, stored(t, g, m.ID()).Runs)
}

func TestGroupIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	started := make(chan struct{})
	quick := newMember(t, "quick", func(context.Context, *member) {
		<-started
		cancel(errors.New("shutting down"))
	})
	failing := newMember(t, "failing", func(ctx context.Context, m *member) {
		close(started)
		<-ctx.Done()
		m.AddError(context.Cause(ctx))
	})
	g := newGroup(t, quick, failing)
	g.Run(ctx)
	require.ErrorContains(t, g.Error(), quick.ID()+`" of group "group": interrupted: shutting down`)
	assert.False(t, g.Status().Completed)
	assert.False(t, stored(t, g, quick.ID()).Status().Completed, "it may not have done all of its work")
	require.EqualError(t, stored(t, g, failing.ID()).Error(), "shutting down")
}

func TestGroupIsCompleteEvenIfItsContextEnded(t *testing.T) {
	m := newMember(t, "member", nil)
	g := newGroup(t, m)
	require.NoError(t, amboy.RunJob(t.Context(), g))
	again := groupThrough(t, g, amboy.BSON)
	again.SetStatus(amboy.JobStatusInfo{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	again.Run(ctx)
	require.NoError(t, again.Error())
	assert.True(t, again.Status().Completed)
}

func TestGroupRetriesOnlySubJobsThatFailed(t *testing.T) {
	good := newMember(t, "good", nil)
	flaky := newMember(t, "flaky", func(_ context.Context, m *member) {
		if m.Runs == 1 {
			m.AddError(errors.New("not yet"))
		}
	})
	g := newGroup(t, good, flaky)
	g.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: ptr(true)})
	require.ErrorContains(t, amboy.RunJob(t.Context(), g), "not yet")
	assert.True(t, g.RetryInfo().NeedsRetry)

	next := groupThrough(t, g, amboy.BSON)
	next.SetStatus(amboy.JobStatusInfo{})
	require.NoError(t, amboy.RunJob(t.Context(), next))
	assert.Equal(t, 1, stored(t, next, good.ID()).Runs)
	assert.Equal(t, 2, stored(t, next, flaky.ID()).Runs)
	require.NoError(t, stored(t, next, flaky.ID()).Error())
}

func TestGroupWithUnreadableJobs(t *testing.T) {
	m := newMember(t, "member", nil)
	g := newGroup(t, m)
	g.Jobs["nothing"] = nil
	g.Jobs["unknown"] = &registry.JobInterchange{Name: "unknown", Type: "no-such-type"}
	err := amboy.RunJob(t.Context(), g)
	require.ErrorContains(t, err, `job "nothing" of group "group": the stored form is missing`)
	require.ErrorContains(t, err, `"no-such-type"`)
	assert.Equal(t, 1, stored(t, g, m.ID()).Runs)
	assert.Len(t, g.Jobs, 3)
}

func TestZeroGroup(t *testing.T) {
	assert.True(t, isA[*amboy.InvalidJobError](amboy.ValidateJob(&job.Group{})))
	_, err := registry.MakeJobInterchange(&job.Group{}, amboy.BSON)
	require.Error(t, err)

	var ran job.Group
	ran.Run(t.Context())
	assert.True(t, ran.Status().Completed)

	var dependent job.Group
	dependent.SetDependency(dependency.NewCreatesFile(""))
	assert.Equal(t, "always", dependent.Dependency().Type().Name)

	var filled job.Group
	m := newMember(t, "member", nil)
	require.NoError(t, filled.Add(m))
	filled.SetID("filled")
	require.NoError(t, amboy.RunJob(t.Context(), &filled))
	assert.Equal(t, 1, stored(t, &filled, m.ID()).Runs)
}

func TestEmptyGroup(t *testing.T) {
	for _, f := range []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON} {
		g := groupThrough(t, job.NewGroup("empty"), f)
		require.NoError(t, amboy.RunJob(t.Context(), g))
		require.NoError(t, g.Add(newMember(t, f.String(), nil)))
	}
}

// mute is a job that panics outside of its Run.
type mute struct {
	job.Base `bson:"job_base" json:"job_base" yaml:"job_base"`
}

func (m *mute) Run(context.Context) {}

func (m *mute) Error() error { panic("no words") }

func TestAPanicOfASubJobOutsideOfItsRunEndedTheProcess(t *testing.T) {
	newMute := func() amboy.Job { return &mute{Base: job.Base{Name: "mute", JobType: amboy.JobType{Name: "mute"}}} }
	registry.AddJobType("mute", newMute)
	g := job.NewGroup("group")
	require.NoError(t, g.Add(newMute()))
	require.ErrorContains(t, amboy.RunJob(t.Context(), g), `job "mute" of group "group": panic: no words`)
}

func TestASnoozedSubJobHasNotSucceeded(t *testing.T) {
	runs := 0
	polls := newMember(t, "polls", func(_ context.Context, m *member) {
		runs++
		if runs == 1 {
			m.Snooze(time.Now().Add(time.Hour))
		}
	})
	g := newGroup(t, polls)
	require.ErrorContains(t, amboy.RunJob(t.Context(), g), "it asked to be snoozed, which jobs of a group can't be")
	assert.Zero(t, g.SnoozedUntil())
	g.SetStatus(amboy.JobStatusInfo{})
	require.NoError(t, amboy.RunJob(t.Context(), g))
	assert.Equal(t, 2, runs)
}

func TestANonRetryableSubJobDoesNotPreventRetriesOfOthers(t *testing.T) {
	for name, reason := range map[string]error{
		"canceled":      job.Cancel(errors.New("not wanted")),
		"not retryable": amboy.NonRetryable(errors.New("not wanted")),
	} {
		t.Run(name, func(t *testing.T) {
			ends := newMember(t, "ends", func(_ context.Context, m *member) { m.AddError(reason) })
			g := newGroup(t, ends, newMember(t, "fails", fail))
			g.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
			require.ErrorContains(t, amboy.RunJob(t.Context(), g), "not wanted")
			assert.True(t, g.RetryInfo().NeedsRetry)
			assert.Empty(t, g.Status().Outcome)

			alone := newGroup(t, ends)
			alone.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
			require.ErrorContains(t, amboy.RunJob(t.Context(), alone), "not wanted")
			assert.False(t, alone.RetryInfo().NeedsRetry)
		})
	}
}
