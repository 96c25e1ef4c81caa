package amboytest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/retry"
	"github.com/mongodb/amboy/schedule"
)

type mail struct {
	To      string `json:"to" bson:"to"`
	Subject string `json:"subject" bson:"subject"`
}

// nameOf returns the name of a job type of a test, which may be run several times in a process.
func nameOf(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(t.Name(), " ", job.GetNumber())
}

// sent holds the mails of a test. Jobs find it in their context.
type sent struct {
	mails []string
	fail  int // number of times to fail first
}

type sentKey struct{}

var sendMail = job.Define("amboytest-send", 1, func(ctx context.Context, m mail) error {
	s := ctx.Value(sentKey{}).(*sent)
	if s.fail > 0 {
		s.fail--
		return errors.New("the server is down")
	}
	now := amboy.Now(amboy.QueueFromContext(ctx))
	s.mails = append(s.mails, now.Format(time.TimeOnly)+" "+m.To)
	return nil
}, job.Defaults[mail]{MaxAttempts: 5, RetryPolicy: retry.Exponential{Base: time.Minute, Factor: 2}})

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// start returns a queue whose time is noon and whose jobs send to s.
func start(t *testing.T) (*amboytest.Queue, *sent) {
	t.Helper()
	s := &sent{}
	q := amboytest.NewWithOptions(t, queue.InlineOptions{Time: noon})
	require.NoError(t, q.Start(context.WithValue(t.Context(), sentKey{}, s)))
	return q, s
}

func TestNoJobRunsByItself(t *testing.T) {
	q, s := start(t)
	before := goleak.IgnoreCurrent() // some of which may end at any time
	_, err := sendMail.Put(t.Context(), q, mail{To: "ann"})
	require.NoError(t, err)
	assert.Empty(t, s.mails)
	assert.True(t, q.RunNext(t.Context()))
	assert.Equal(t, []string{"12:00:00 ann"}, s.mails)
	assert.False(t, q.RunNext(t.Context()))
	require.NoError(t, goleak.Find(before))
}

func TestTimePassesOnlyByAdvance(t *testing.T) {
	q, s := start(t)
	_, err := sendMail.Put(t.Context(), q, mail{To: "ann"}, job.In(time.Hour))
	require.NoError(t, err)
	q.Advance(time.Hour - 1)
	assert.Zero(t, q.RunAll(t.Context()))
	due, ok := q.NextTime()
	require.True(t, ok)
	assert.Equal(t, noon.Add(time.Hour), due.UTC())
	q.Advance(1)
	assert.Equal(t, 1, q.RunAll(t.Context()))
	assert.Equal(t, []string{"13:00:00 ann"}, s.mails)
	q.AdvanceTo(noon)
	assert.Equal(t, noon.Add(time.Hour), q.Now(), "it does not go back")
}

func TestRetriesComeAtTheirTimes(t *testing.T) {
	q, s := start(t)
	s.fail = 2
	id, err := sendMail.Put(t.Context(), q, mail{To: "ann"})
	require.NoError(t, err)
	assert.Equal(t, 1, q.RunAll(t.Context()))
	amboytest.RequireState(t, q, id, amboy.StateScheduled)
	assert.Equal(t, 2, q.RunFor(t.Context(), 10*time.Minute))
	assert.Equal(t, []string{"12:03:00 ann"}, s.mails, "after one minute, and then two")
	assert.Equal(t, noon.Add(10*time.Minute), q.Now())
	attempts, err := q.GetAllAttempts(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, attempts, 3)
}

func TestWaitingRunsJobs(t *testing.T) {
	q, s := start(t)
	s.fail = 1
	id, err := sendMail.Put(t.Context(), q, mail{To: "ann"})
	require.NoError(t, err)
	_, err = sendMail.Put(t.Context(), q, mail{To: "bob"}, job.In(time.Hour))
	require.NoError(t, err)
	j, ok := q.Get(t.Context(), id)
	require.True(t, ok)
	require.True(t, amboy.WaitJob(t.Context(), j, q))
	assert.Equal(t, []string{"12:01:00 ann"}, s.mails)
	require.True(t, amboy.Wait(t.Context(), q))
	assert.Equal(t, []string{"12:01:00 ann", "13:00:00 bob"}, s.mails)
	assert.False(t, q.WaitJobComplete(t.Context(), "unknown"))
}

func TestWaitingForAJobThatCanNotEndReturns(t *testing.T) {
	q, s := start(t)
	require.NoError(t, q.Pause(t.Context()))
	id, err := sendMail.Put(t.Context(), q, mail{To: "ann"})
	require.NoError(t, err)
	assert.False(t, amboy.Wait(t.Context(), q))
	assert.False(t, q.WaitJobComplete(t.Context(), id))
	require.NoError(t, q.Resume(t.Context()))
	assert.True(t, amboy.Wait(t.Context(), q))
	assert.Len(t, s.mails, 1)
}

func TestAJobMayWaitForAnother(t *testing.T) {
	q, s := start(t)
	outer := job.Define(nameOf(t), 1, func(ctx context.Context, to string) error {
		if _, err := sendMail.Put(ctx, q, mail{To: to}, job.ID("inner")); err != nil {
			return err
		}
		if !q.WaitJobComplete(ctx, "inner") {
			return errors.New("it did not run")
		}
		return nil
	})
	id, err := outer.Put(t.Context(), q, "ann")
	require.NoError(t, err)
	assert.Equal(t, 1, q.RunAll(t.Context()), "the other is run by the first")
	assert.Len(t, s.mails, 1)
	amboytest.RequireState(t, q, id, amboy.StateSucceeded)
}

func TestJobsAreForgotten(t *testing.T) {
	q, _ := start(t)
	_, err := sendMail.Put(t.Context(), q, mail{To: "ann"})
	require.NoError(t, err)
	q.RunAll(t.Context())
	q.Advance(queue.DefaultKeepSucceeded - 1)
	amboytest.RequireCount(t, q, 1, amboy.JobQuery{})
	q.Advance(1)
	amboytest.RequireCount(t, q, 0, amboy.JobQuery{})
}

// Jobs were counted after their retention, and nothing said that they had been removed.
func TestFailuresDidNotSayThatJobsWereRemoved(t *testing.T) {
	q, _ := start(t)
	id, err := sendMail.Put(t.Context(), q, mail{To: "ann"})
	require.NoError(t, err)
	assertions := []func(testing.TB){
		func(t testing.TB) { amboytest.RequireCount(t, q, 2, amboy.JobQuery{}) },
		func(t testing.TB) { amboytest.RequirePut(t, q, sendMail, mail{To: "bob"}) },
		func(t testing.TB) { amboytest.RequireState(t, q, id+"x", amboy.StateSucceeded) },
	}
	const hint = "succeeded jobs are removed after 24h0m0s"
	q.RunAll(t.Context())
	for _, assertion := range assertions {
		said := failure(t, assertion)
		assert.NotEmpty(t, said)
		assert.NotContains(t, said, hint, "none can have been removed yet")
	}
	q.Advance(queue.DefaultKeepSucceeded)
	for _, assertion := range assertions {
		assert.Contains(t, failure(t, assertion), hint)
	}
}

func TestASchedule(t *testing.T) {
	q, s := start(t)
	scheduler, err := schedule.New(q, schedule.Options{})
	require.NoError(t, err)
	every, err := schedule.Cron("30 * * * *", "UTC")
	require.NoError(t, err)
	require.NoError(t, scheduler.Add("hourly", every, func(tick time.Time) (amboy.Job, error) {
		return sendMail.New(mail{To: tick.Format(time.Kitchen)})
	}, schedule.CatchUpAll))
	ran, err := q.RunSchedule(t.Context(), scheduler, noon.Add(3*time.Hour))
	require.NoError(t, err)
	assert.Equal(t, 3, ran)
	assert.Equal(t, []string{"12:30:00 12:30PM", "13:30:00 1:30PM", "14:30:00 2:30PM"}, s.mails)
	assert.Equal(t, noon.Add(3*time.Hour), q.Now())
}

// A scheduler of a group follows the system's time. RunSchedule called it without a pause until its
// tick came by that.
func TestRunScheduleOfASchedulerWithAnotherTimeReturnsAnError(t *testing.T) {
	q := amboytest.New(t)
	group, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) { return q, nil }},
	})
	require.NoError(t, err)
	tenants := func(context.Context) ([]string, error) { return []string{"acme"}, nil }
	scheduler, err := schedule.NewTenants(group, tenants, schedule.Options{})
	require.NoError(t, err)
	every, err := schedule.Every(time.Hour, q.Now().Add(time.Minute))
	require.NoError(t, err)
	require.NoError(t, scheduler.Add("hourly", every, func(string, time.Time) (amboy.Job, error) {
		return sendMail.New(mail{To: "ann"})
	}, schedule.CatchUpAll))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ran, err := q.RunSchedule(ctx, scheduler, q.Now().Add(time.Hour))
	require.ErrorContains(t, err, "does not follow the queue's time")
	assert.Zero(t, ran)
}

func TestTimeStartsAtTheSystemTime(t *testing.T) {
	before := time.Now()
	q := amboytest.New(t)
	assert.False(t, q.Now().Before(before.Round(0)))
	assert.False(t, q.Now().After(time.Now()))
	first, second := q.Now(), q.Now()
	assert.Equal(t, first, second, "it stands still")
}

// failing is a testing.TB that records its failure.
type failing struct {
	*testing.T
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// logging keeps what is logged.
type logging struct {
	*testing.T
	said string
}

func (l *logging) Logf(format string, args ...any) { l.said += fmt.Sprintf(format, args...) }

// failure returns the message with which an assertion fails the test; empty if it passes.
func failure(t *testing.T, assertion func(testing.TB)) (said string) {
	t.Helper()
	f := &failing{T: t}
	defer func() {
		if value := recover(); value != nil && value != any(f) {
			panic(value)
		}
		said = f.said
	}()
	assertion(f)
	return ""
}

func TestAssertions(t *testing.T) {
	q, _ := start(t)
	ann, bob := mail{To: "ann"}, mail{To: "bob"}
	_, err := sendMail.Put(t.Context(), q, ann, job.ID("to-ann"), job.Tags("welcome"), job.In(time.Hour))
	require.NoError(t, err)
	put := amboytest.RequirePut(t, q, sendMail, ann)
	assert.Equal(t, "to-ann", put.Info.ID)
	assert.Equal(t, "to-ann", put.Job.ID())
	assert.Equal(t, ann, put.Args)
	assert.Equal(t, noon.Add(time.Hour), put.Info.Time.WaitUntil.UTC())
	never := job.Define(nameOf(t), 1, func(context.Context, int) error { return nil })

	for name, test := range map[string]struct {
		assertion func(testing.TB)
		says      []string // nothing if it passes
	}{
		"put":                      {func(t testing.TB) { amboytest.RequirePut(t, q, sendMail, ann) }, nil},
		"put with other arguments": {func(t testing.TB) { amboytest.RequirePut(t, q, sendMail, bob) }, []string{`"bob"`, `"ann"`, `"to-ann" (scheduled)`}},
		"none put":                 {func(t testing.TB) { amboytest.RequirePut(t, q, never, 7) }, []string{"7", "no such job was put"}},
		"no put":                   {func(t testing.TB) { amboytest.RequireNoPut(t, q, never) }, nil},
		"no put, but one exists":   {func(t testing.TB) { amboytest.RequireNoPut(t, q, sendMail) }, []string{"amboytest-send", "to-ann"}},
		"count":                    {func(t testing.TB) { amboytest.RequireCount(t, q, 1, amboy.JobQuery{Tag: "welcome"}) }, nil},
		"wrong count":              {func(t testing.TB) { amboytest.RequireCount(t, q, 2, amboy.JobQuery{}) }, []string{"1 jobs", "want 2", "to-ann", "welcome"}},
		"state":                    {func(t testing.TB) { amboytest.RequireState(t, q, "to-ann", amboy.StateScheduled) }, nil},
		"wrong state":              {func(t testing.TB) { amboytest.RequireState(t, q, "to-ann", amboy.StateFailed) }, []string{"to-ann", "scheduled", "failed"}},
		"state of no job":          {func(t testing.TB) { amboytest.RequireState(t, q, "other", amboy.StateFailed) }, []string{`"other"`}},
		"not found in these":       {func(t testing.TB) { amboytest.RequireNoPut(t, struct{ amboy.Queue }{q}, sendMail) }, []string{"struct"}},
		"invalid options": {func(t testing.TB) {
			amboytest.NewWithOptions(t, queue.InlineOptions{Retention: queue.Retention{Failed: -7}})
		}, []string{"Failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			said := failure(t, test.assertion)
			if len(test.says) == 0 {
				assert.Empty(t, said)
			}
			for _, part := range test.says {
				assert.Contains(t, said, part)
			}
			assert.LessOrEqual(t, strings.Count(said, "amboytest: "), 1)
		})
	}
}

// The test of a job whose function was not bound failed without a reason.
var count = job.DefineResult("amboytest-count", 1, func(_ context.Context, text string) (int, error) { return len(text), nil })

func TestPutsOfADefinitionWithAResultDidNotCompile(t *testing.T) {
	q, _ := start(t)
	amboytest.RequireNoPut(t, q, count)
	_, err := count.Put(t.Context(), q, "four")
	require.NoError(t, err)
	amboytest.RequirePut(t, q, count, "four")
	assert.Len(t, amboytest.Puts(t, q, count), 1)
}

func TestAForgottenBindWasSilent(t *testing.T) {
	name := nameOf(t)
	forgotten := job.Declare[string](name, 1)
	log := &logging{T: t}
	q := amboytest.New(log)
	id, err := forgotten.Put(t.Context(), q, "x")
	require.NoError(t, err)
	want := "no function is bound for " + name + " in this process"

	assert.Zero(t, q.RunAll(t.Context()))
	assert.Contains(t, log.said, want)
	said := failure(t, func(tb testing.TB) { amboytest.RequireState(tb, q, id, amboy.StateSucceeded) })
	assert.Contains(t, said, want)
	assert.Contains(t, amboytest.RequirePut(t, q, forgotten, "x").Info.Reason, want)
	j, ok := q.Get(t.Context(), id)
	require.True(t, ok)
	assert.Equal(t, want, amboy.NewJobInfo(j).Reason)

	require.NoError(t, forgotten.Bind(func(context.Context, string) error { return nil }))
	assert.Empty(t, amboytest.RequirePut(t, q, forgotten, "x").Info.Reason)
	assert.Equal(t, 1, q.RunAll(t.Context()))
}

func TestTimeDoesNotGoBack(t *testing.T) {
	said := failure(t, func(tb testing.TB) { amboytest.New(tb).Advance(-time.Second) })
	assert.Contains(t, said, "-1s")
	said = failure(t, func(tb testing.TB) { amboytest.New(tb).RunFor(t.Context(), -time.Second) })
	assert.Contains(t, said, "-1s")
}

func TestRunAllNeverReturnedOnceTheContextOfStartHadEnded(t *testing.T) {
	q := amboytest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, q.Start(ctx))
	_, err := sendMail.Put(t.Context(), q, mail{To: "ann"})
	require.NoError(t, err)
	cancel()
	assert.Zero(t, q.RunAll(t.Context()))
	assert.False(t, q.WaitComplete(t.Context()))
}

func TestACanceledRunMovedTheClock(t *testing.T) {
	q, s := start(t)
	_, err := sendMail.Put(t.Context(), q, mail{To: "ann"}, job.In(time.Minute))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Zero(t, q.RunFor(ctx, time.Hour))
	assert.Equal(t, noon, q.Now())
	assert.Equal(t, 1, q.RunFor(t.Context(), time.Hour))
	assert.Equal(t, []string{"12:01:00 ann"}, s.mails)
}

func TestAJobThatCallsGoexit(t *testing.T) {
	exiting := job.Define(nameOf(t), 1, func(context.Context, string) error {
		runtime.Goexit()
		return nil
	})
	q := amboytest.New(t)
	_, err := exiting.Put(t.Context(), q, "x", job.ID("x"))
	require.NoError(t, err)
	done := make(chan bool)
	go func() {
		defer close(done)
		q.RunNext(t.Context())
	}()
	<-done
	amboytest.RequireState(t, q, "x", amboy.StateFailed)
}

// A job loses the same data in a test as in a store.
func TestJobsWereStoredInAnotherFormatThanByRealQueues(t *testing.T) {
	type moment struct {
		At     time.Time
		Secret string `bson:"-"`
	}
	var seen []moment
	note := job.Define(nameOf(t), 1, func(_ context.Context, m moment) error {
		seen = append(seen, m)
		return nil
	})
	args := moment{noon.Add(time.Nanosecond), "x"}
	store, err := memory.New(memory.Options{KeepFinished: 1})
	require.NoError(t, err)
	actual, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer actual.Close(context.Background())
	for _, q := range []amboy.Queue{actual, amboytest.New(t)} {
		require.NoError(t, q.Start(t.Context()))
		_, err = note.Put(t.Context(), q, args)
		require.NoError(t, err)
		require.True(t, amboy.Wait(t.Context(), q))
	}
	require.Len(t, seen, 2)
	assert.Equal(t, seen[0], seen[1])

	q := amboytest.NewWithOptions(t, queue.InlineOptions{Format: amboy.JSON})
	_, err = note.Put(t.Context(), q, args)
	require.NoError(t, err)
	require.True(t, q.RunNext(t.Context()))
	assert.Equal(t, args, seen[2])
}
