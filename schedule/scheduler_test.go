package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/schedule"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// spyQueue is a queue with a clock that the test moves. It records what was put, and fails
// on request.
type spyQueue struct {
	amboy.Queue
	mu      sync.Mutex
	now     time.Time
	put     []string
	putErr  error
	markErr error
}

func newSpyQueue(t *testing.T) *spyQueue {
	t.Helper()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, PutBeforeStart: true})
	require.NoError(t, err)
	return &spyQueue{Queue: q, now: noon}
}

func (q *spyQueue) Now() time.Time { return q.now }

func (q *spyQueue) Mark(ctx context.Context, name string, at time.Time) (time.Time, error) {
	if q.markErr != nil {
		return time.Time{}, q.markErr
	}
	return q.Queue.(amboy.QueueMarker).Mark(ctx, name, at)
}

func (q *spyQueue) Put(ctx context.Context, j amboy.Job) error {
	if q.putErr != nil {
		return q.putErr
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.Queue.Put(ctx, j)
	if err == nil {
		q.put = append(q.put, j.ID())
	}
	return err
}

// taken returns the hours and minutes of the ticks that were put since its last call.
func (q *spyQueue) taken() (ticks []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range q.put {
		_, at, _ := strings.Cut(id, "@")
		ticks = append(ticks, strings.TrimSuffix(strings.TrimPrefix(at, "2030-01-02T"), ":00Z"))
	}
	q.put = nil
	return ticks
}

// newNumber makes a job that does nothing.
func newNumber(time.Time) (amboy.Job, error) { return job.NewShellJob("true", ""), nil }

// process returns a scheduler with one schedule. It simulates a process.
func process(t *testing.T, q amboy.Queue, s schedule.Schedule, catchUp schedule.CatchUp) *schedule.Scheduler {
	t.Helper()
	scheduler, err := schedule.New(q, schedule.Options{MaxCatchUp: 5})
	require.NoError(t, err)
	require.NoError(t, scheduler.Add("report", s, newNumber, catchUp))
	return scheduler
}

func every(t *testing.T, d time.Duration) schedule.Schedule {
	t.Helper()
	s, err := schedule.Every(d, time.Time{})
	require.NoError(t, err)
	return s
}

// at moves the clock to a time of the day and calls PutDue.
func (q *spyQueue) at(t *testing.T, clock string, s *schedule.Scheduler) (next time.Time) {
	t.Helper()
	at, err := time.Parse("15:04:05.999", clock)
	require.NoError(t, err)
	q.now = time.Date(2030, 1, 2, at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
	next, err = s.PutDue(t.Context())
	require.NoError(t, err)
	return next
}

func TestEachTickIsPutOnce(t *testing.T) {
	q := newSpyQueue(t)
	s := process(t, q, every(t, time.Hour), schedule.CatchUpNone)
	next := q.at(t, "12:00:00", s)
	assert.Empty(t, q.taken(), "a tick at the time of Add is not after it")
	assert.Equal(t, noon.Add(time.Hour), next)
	q.at(t, "12:59:59.999", s)
	assert.Empty(t, q.taken())
	next = q.at(t, "13:00:00", s)
	assert.Equal(t, []string{"13:00"}, q.taken())
	assert.Equal(t, noon.Add(2*time.Hour), next)
	q.at(t, "13:00:00", s)
	q.at(t, "13:30:00", s)
	assert.Empty(t, q.taken())
	q.at(t, "14:00:01", s)
	assert.Equal(t, []string{"14:00"}, q.taken())
}

func TestEachTickIsPutOnceBySeveralProcesses(t *testing.T) {
	q := newSpyQueue(t)
	a := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	b := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	for hour := 12; hour < 24; hour++ {
		clock := fmt.Sprintf("%d:00:00", hour)
		q.at(t, clock, a)
		q.at(t, clock, b)
	}
	assert.Len(t, q.taken(), 11)
	assert.Equal(t, a.List(), b.List())
}

// forgetful is a queue that drops the jobs that are put.
type forgetful struct{ *spyQueue }

func (q forgetful) Put(_ context.Context, j amboy.Job) error {
	q.put = append(q.put, j.ID())
	return nil
}

func TestATickWhoseJobWasForgottenIsNotPutAgain(t *testing.T) {
	spy := newSpyQueue(t)
	q := forgetful{spy}
	a := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	b := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	spy.at(t, "12:00:00", a)
	spy.at(t, "12:00:00", b)
	spy.at(t, "13:00:00", a)
	spy.at(t, "13:00:00", b)
	spy.at(t, "13:30:00", process(t, q, every(t, time.Hour), schedule.CatchUpAll))
	assert.Equal(t, []string{"13:00"}, spy.taken())
}

func TestMissedTicks(t *testing.T) {
	for name, test := range map[string]struct {
		catchUp schedule.CatchUp
		back    string
		want    []string
	}{
		"none":                                {schedule.CatchUpNone, "16:30:00", nil},
		"none, but one is not late":           {schedule.CatchUpNone, "16:00:59", []string{"16:00"}},
		"latest":                              {schedule.CatchUpLatest, "16:30:00", []string{"16:00"}},
		"latest, which is not late":           {schedule.CatchUpLatest, "16:00:59", []string{"16:00"}},
		"latest, none missed":                 {schedule.CatchUpLatest, "13:30:00", nil},
		"all":                                 {schedule.CatchUpAll, "16:30:00", []string{"14:00", "15:00", "16:00"}},
		"of more than MaxCatchUp, the latest": {schedule.CatchUpAll, "23:00:00", []string{"19:00", "20:00", "21:00", "22:00", "23:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newSpyQueue(t)
			first := process(t, q, every(t, time.Hour), test.catchUp)
			q.at(t, "12:00:00", first)
			q.at(t, "13:00:00", first)
			require.Equal(t, []string{"13:00"}, q.taken())

			again := process(t, q, every(t, time.Hour), test.catchUp)
			q.at(t, test.back, again)
			assert.Equal(t, test.want, q.taken())
			q.at(t, test.back, again)
			assert.Empty(t, q.taken())
		})
	}
}

func TestTicksCountFromTheFirstProcessOn(t *testing.T) {
	q := newSpyQueue(t)
	first := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	q.at(t, "12:30:00", first) // the process then ends
	q.now = noon.Add(3*time.Hour + time.Minute)
	q.at(t, "15:01:00", process(t, q, every(t, time.Hour), schedule.CatchUpAll))
	assert.Equal(t, []string{"13:00", "14:00", "15:00"}, q.taken())
}

func TestAProcessThatStartsJustAfterATickDoesNotMarkIt(t *testing.T) {
	q := newSpyQueue(t)
	q.now = noon.Add(-time.Millisecond)
	a := process(t, q, every(t, time.Hour), schedule.CatchUpNone)
	q.now = noon.Add(time.Millisecond)
	b := process(t, q, every(t, time.Hour), schedule.CatchUpNone)
	q.at(t, "12:00:00.001", b)
	assert.Empty(t, q.taken())
	q.at(t, "12:00:00.002", a)
	assert.Equal(t, []string{"12:00"}, q.taken())
}

func TestTheJobOfATick(t *testing.T) {
	q := newSpyQueue(t)
	s, err := schedule.New(q, schedule.Options{})
	require.NoError(t, err)
	var made time.Time
	berlin, err := schedule.Cron("30 13 * * *", "Europe/Berlin")
	require.NoError(t, err)
	require.NoError(t, s.Add("report", berlin, func(tick time.Time) (amboy.Job, error) {
		made = tick
		return newNumber(tick)
	}, schedule.CatchUpNone))
	q.at(t, "12:30:00", s)
	assert.Equal(t, "2030-01-02 13:30:00 +0100 CET", made.String())
	assert.Equal(t, []string{"report@2030-01-02T12:30:00Z"}, q.put)
	_, found := q.Get(t.Context(), schedule.TickID("report", made))
	assert.True(t, found)
}

func TestOneOffTicks(t *testing.T) {
	q := newSpyQueue(t)
	once, err := schedule.At(noon.Add(time.Hour), noon.Add(-time.Hour), noon.Add(time.Minute+time.Microsecond))
	require.NoError(t, err)
	s := process(t, q, once, schedule.CatchUpNone)
	assert.Equal(t, noon.Add(time.Minute), q.at(t, "12:00:30", s))
	assert.Equal(t, noon.Add(time.Hour), q.at(t, "12:01:00", s))
	assert.Zero(t, q.at(t, "13:00:00", s))
	assert.Equal(t, []string{"12:01", "13:00"}, q.taken())
	assert.Zero(t, q.at(t, "14:00:00", s))
	assert.Empty(t, q.taken())
	assert.Zero(t, s.List()[0].Next)
}

func TestAPutThatFailsIsTriedAgain(t *testing.T) {
	q := newSpyQueue(t)
	s := process(t, q, every(t, time.Hour), schedule.CatchUpNone)
	q.at(t, "12:00:00", s)
	q.putErr = errors.New("the store is away")
	q.now = noon.Add(time.Hour)
	for _, wait := range []time.Duration{1, 2, 4, 8, 16} {
		next, err := s.PutDue(t.Context())
		require.ErrorIs(t, err, q.putErr)
		require.ErrorContains(t, err, `schedule "report" of queue`)
		require.ErrorContains(t, err, "putting the job of tick 2030-01-02T13:00:00Z")
		require.Equal(t, q.now.Add(wait*time.Second), next)
		info := s.List()[0]
		require.Equal(t, noon.Add(time.Hour), info.Next)
		require.ErrorIs(t, info.Err, q.putErr)

		q.now = q.now.Add(wait*time.Second - 1)
		again, err := s.PutDue(t.Context())
		require.NoError(t, err, "too early for a retry")
		require.Equal(t, next, again)
		q.now = next
	}
	q.putErr = nil
	assert.Equal(t, noon.Add(2*time.Hour), q.at(t, "13:00:31", s))
	assert.Equal(t, []string{"13:00"}, q.taken())
	assert.NoError(t, s.List()[0].Err)
}

func TestATickThatCouldNotBePutIsMissed(t *testing.T) {
	q := newSpyQueue(t)
	s := process(t, q, every(t, time.Hour), schedule.CatchUpNone)
	q.at(t, "12:00:00", s)
	q.putErr = errors.New("the store is away")
	q.now = noon.Add(time.Hour)
	_, err := s.PutDue(t.Context())
	require.Error(t, err)
	q.putErr = nil
	q.at(t, "13:01:01", s)
	assert.Empty(t, q.taken())
}

func TestTicksCountFromAddEvenIfMarkFails(t *testing.T) {
	q := newSpyQueue(t)
	s := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	q.markErr = errors.New("the store is away")
	next, err := s.PutDue(t.Context())
	require.ErrorIs(t, err, q.markErr)
	assert.Equal(t, noon.Add(time.Second), next)
	q.markErr = nil
	q.at(t, "13:00:10", s)
	assert.Equal(t, []string{"13:00"}, q.taken(), "the ticks count from Add on")
}

func TestJobsThatAreRefused(t *testing.T) {
	fixed := &unnamed{amboy.Job(job.NewShellJob("true", ""))}
	for name, test := range map[string]struct {
		newJob schedule.JobFunc
		text   string
	}{
		"an error": {func(time.Time) (amboy.Job, error) { return nil, errors.New("no numbers yet") }, "making it: no numbers yet"},
		"nil":      {func(time.Time) (amboy.Job, error) { return nil, nil }, "job must not be nil"},
		"a panic":  {func(time.Time) (amboy.Job, error) { panic("oh") }, "panic: oh"},
		"its ID":   {func(time.Time) (amboy.Job, error) { return fixed, nil }, `must be "report@2030-01-02T13:00:00Z"`},
	} {
		t.Run(name, func(t *testing.T) {
			q := newSpyQueue(t)
			s, err := schedule.New(q, schedule.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Add("report", every(t, time.Hour), test.newJob, schedule.CatchUpNone))
			require.NoError(t, s.Add("well", every(t, time.Hour), newNumber, schedule.CatchUpNone))
			q.at(t, "12:00:00", s)
			q.now = noon.Add(time.Hour)
			_, err = s.PutDue(t.Context())
			require.ErrorContains(t, err, test.text)
			assert.Equal(t, []string{"13:00"}, q.taken(), "the other schedule goes on")
		})
	}
}

// unnamed is a job without SetID.
type unnamed struct{ amboy.Job }

// scheduleFunc is a function that implements Schedule.
type scheduleFunc func(time.Time) time.Time

func (f scheduleFunc) Next(after time.Time) time.Time { return f(after) }

func TestCustomSchedule(t *testing.T) {
	q := newSpyQueue(t)
	for name, next := range map[string]scheduleFunc{
		"not after":    func(after time.Time) time.Time { return after },
		"microseconds": func(after time.Time) time.Time { return after.Add(time.Microsecond) },
		"a panic":      func(time.Time) time.Time { panic("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schedule.New(q, schedule.Options{})
			require.NoError(t, err)
			require.Error(t, s.Add("report", next, newNumber, schedule.CatchUpNone))
			assert.Empty(t, s.List())
		})
	}
	var broken error
	s := process(t, q, scheduleFunc(func(after time.Time) time.Time {
		if broken != nil {
			panic(broken)
		}
		return after.Truncate(time.Hour).Add(time.Hour)
	}), schedule.CatchUpAll)
	q.at(t, "12:00:00", s)
	broken = errors.New("oh")
	q.now = noon.Add(time.Hour)
	_, err := s.PutDue(t.Context())
	require.ErrorIs(t, err, broken)
	broken = nil
	q.at(t, "13:00:01", s)
	assert.Equal(t, []string{"13:00"}, q.taken())
}

func TestAddRefuses(t *testing.T) {
	s, err := schedule.New(newSpyQueue(t), schedule.Options{})
	require.NoError(t, err)
	hourly := every(t, time.Hour)
	for name, test := range map[string]struct {
		name    string
		when    schedule.Schedule
		newJob  schedule.JobFunc
		catchUp schedule.CatchUp
		value   any
		text    string
	}{
		"no name":            {"", hourly, newNumber, schedule.CatchUpAll, "", `name must be 1 to 128 letters`},
		"a long name":        {strings.Repeat("x", 129), hourly, newNumber, schedule.CatchUpAll, strings.Repeat("x", 129), "name must be"},
		"a name with spaces": {"every hour", hourly, newNumber, schedule.CatchUpAll, "every hour", `(is "every hour")`},
		"no schedule":        {"x", nil, newNumber, schedule.CatchUpAll, nil, `schedule must not be nil`},
		"no function":        {"x", hourly, nil, schedule.CatchUpAll, nil, `function that makes the jobs must not be nil`},
		"no catch-up":        {"x", hourly, newNumber, "", schedule.CatchUp(""), `must be "none", "latest" or "all" (is "")`},
	} {
		t.Run(name, func(t *testing.T) {
			refused := s.Add(test.name, test.when, test.newJob, test.catchUp)
			require.ErrorContains(t, refused, test.text)
			var invalid *schedule.InvalidError
			require.ErrorAs(t, refused, &invalid)
			assert.Equal(t, test.value, invalid.Value)
			assert.Empty(t, s.List())
		})
	}
	require.NoError(t, s.Add("a.b-c/D:1_", hourly, newNumber, schedule.CatchUpAll))
	err = s.Add("a.b-c/D:1_", hourly, newNumber, schedule.CatchUpAll)
	var duplicate *schedule.DuplicateNameError
	require.ErrorAs(t, err, &duplicate)
	assert.Equal(t, "a.b-c/D:1_", duplicate.Name)
	assert.EqualError(t, err, `schedule "a.b-c/D:1_" already exists`)
}

func TestNewRefuses(t *testing.T) {
	_, err := schedule.New(nil, schedule.Options{})
	require.ErrorContains(t, err, "the queue must not be nil")
	q := newSpyQueue(t)
	_, err = schedule.New(struct{ amboy.Queue }{q.Queue}, schedule.Options{})
	require.ErrorContains(t, err, "it must be an amboy.QueueMarker")
	_, err = schedule.New(q, schedule.Options{MaxCatchUp: -1})
	require.ErrorContains(t, err, "MaxCatchUp must not be negative (is -1)")
}

func TestListAndRemove(t *testing.T) {
	q := newSpyQueue(t)
	s := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	daily, err := schedule.Cron("@daily", "UTC")
	require.NoError(t, err)
	require.NoError(t, s.Add("daily", daily, newNumber, schedule.CatchUpLatest))
	q.at(t, "12:00:00", s)
	q.at(t, "13:00:00", s)
	infos := s.List()
	require.Len(t, infos, 2)
	assert.Equal(t, schedule.Info{Name: "daily", Schedule: daily, CatchUp: schedule.CatchUpLatest, Next: noon.Add(12 * time.Hour)}, infos[0])
	assert.Equal(t, noon.Add(time.Hour), infos[1].Last)
	assert.Equal(t, noon.Add(2*time.Hour), infos[1].Next)
	assert.Equal(t, "cron @daily, UTC; every 1h0m0s", fmt.Sprintf("%s; %s", infos[0].Schedule, infos[1].Schedule))

	assert.True(t, s.Remove("report"))
	assert.False(t, s.Remove("report"))
	assert.Equal(t, noon.Add(12*time.Hour), q.at(t, "14:00:00", s))
	assert.Equal(t, []string{"13:00"}, q.taken())
}

func TestPutDueStopsWhenItsContextEnds(t *testing.T) {
	q := newSpyQueue(t)
	s := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.PutDue(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.NoError(t, s.List()[0].Err, "the error is not about the schedule")
}
