package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// noteKeeper is a memory driver that records the notes that were kept.
type noteKeeper struct {
	driver.Driver
	mu    sync.Mutex
	calls [][]driver.Note
	reads int
	fail  error
}

func newNoteKeeper(t *testing.T) *noteKeeper {
	t.Helper()
	d, err := memory.New(memory.Options{KeepFinished: 1000})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(ended())) })
	return &noteKeeper{Driver: d}
}

// isBacklog reports whether notes are those of the number of waiting jobs, which k does not record.
func isBacklog(kind string) bool { return strings.HasPrefix(kind, "backlog ") }

func (k *noteKeeper) Keep(ctx context.Context, notes ...driver.Note) error {
	if isBacklog(notes[0].Kind) {
		return k.Driver.Keep(ctx, notes...)
	}
	k.mu.Lock()
	k.calls = append(k.calls, slices.Clone(notes))
	err := k.fail
	k.mu.Unlock()
	if err != nil {
		return err
	}
	return k.Driver.Keep(ctx, notes...)
}

func (k *noteKeeper) Notes(ctx context.Context, request driver.NoteRequest) ([]driver.Note, error) {
	if isBacklog(request.Kind) {
		return k.Driver.Notes(ctx, request)
	}
	k.mu.Lock()
	k.reads++
	k.mu.Unlock()
	return k.Driver.Notes(ctx, request)
}

func (k *noteKeeper) setFail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = err
}

// taken returns the kinds of notes of each call of Keep, and the number of calls of
// Notes, since it was last called.
func (k *noteKeeper) taken() (calls [][]string, reads int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, notes := range k.calls {
		var kinds []string
		for _, note := range notes {
			kinds = append(kinds, note.Kind)
		}
		calls = append(calls, kinds)
	}
	reads, k.calls, k.reads = k.reads, nil, 0
	return calls, reads
}

func onKeeper(t *testing.T, k driver.Driver, name string, workers int) amboy.RetryableQueue {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: k, Name: name, NumWorkers: workers})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(ended()) })
	return q
}

// processesIn returns the processes in the notes of a store.
func processesIn(t *testing.T, admin driver.Admin) (processes []presence.Process) {
	t.Helper()
	notes, err := admin.Notes(t.Context(), driver.NoteRequest{Kind: presence.ProcessKind, Limit: 100})
	require.NoError(t, err)
	for _, note := range notes {
		var p presence.Process
		require.NoError(t, presence.Decode(note, &p))
		assert.Equal(t, p.ID, note.Key)
		processes = append(processes, p)
	}
	return processes
}

// activityIn returns the sums of the activity in the notes of a store, by minute or by
// hour.
func activityIn(t *testing.T, admin driver.Admin, kind string) map[[2]string]activity.Row {
	t.Helper()
	notes, err := admin.Notes(t.Context(), driver.NoteRequest{Kind: kind, Limit: 1000})
	require.NoError(t, err)
	sums := map[[2]string]activity.Row{}
	for _, note := range notes {
		b, err := activity.Decode(note.Value)
		require.NoError(t, err)
		for _, row := range b.Rows {
			sum := sums[[2]string{row.Queue, row.Type}]
			sum.Add(row)
			sums[[2]string{row.Queue, row.Type}] = sum
		}
	}
	return sums
}

func TestAProcessAnnouncesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		q := onKeeper(t, k, "q", 3)
		pass(time.Hour)
		assert.Empty(t, processesIn(t, k), "the queue has not started")
		k.taken()

		begin := time.Now()
		require.NoError(t, q.Start(t.Context()))
		synctest.Wait()
		calls, reads := k.taken()
		assert.Equal(t, [][]string{{"process"}}, calls)
		assert.Equal(t, 1, reads)
		processes := processesIn(t, k)
		require.Len(t, processes, 1)
		p := processes[0]
		assert.Equal(t, []presence.Queue{{Name: "q", Workers: 3, Started: true}}, p.Queues)
		assert.WithinDuration(t, begin, p.Seen, 0)
		assert.WithinDuration(t, begin.Add(-time.Hour), p.Started, 0)
		assert.True(t, p.Alive(begin.Add(2*time.Minute)))
		assert.False(t, p.Alive(begin.Add(3*time.Minute)))
		k.taken()

		pass(10*time.Minute + time.Second)
		calls, reads = k.taken()
		assert.Len(t, calls, 10)
		assert.Equal(t, 10, reads)
		assert.WithinDuration(t, time.Now(), processesIn(t, k)[0].Seen, time.Minute)

		q.Close(t.Context())
		assert.Empty(t, processesIn(t, k))
		pass(time.Hour)
		calls, _ = k.taken()
		assert.Empty(t, calls)
	})
}

func TestTheOwnerOfAJobIsTheProcess(t *testing.T) {
	k := newNoteKeeper(t)
	q := onKeeper(t, k, "q", 1)
	require.NoError(t, q.Start(t.Context()))
	j, started, release := holder(t, "job")
	put(t, q, j)
	<-started
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	require.NoError(t, store.Refresh(t.Context()))
	r, err := k.Get(t.Context(), "q", "job")
	require.NoError(t, err)
	assert.Equal(t, r.Status.Owner, processesIn(t, k)[0].ID)
	release()
}

// TestTheOwnerOfEachAttemptIsTheProcess retries a job in a group. The retry handler locks
// the job in the name of the queue.
func TestTheOwnerOfEachAttemptIsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		g, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: k, NumWorkers: 1},
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, g.Close(ended())) }()
		q := open(t, g, "tenant")
		put(t, q, retryable(newJob(t, "job", func(_ context.Context, j *funcJob) {
			j.AddRetryableError(errors.New("no luck"))
		}), 3))
		pass(time.Hour)
		attempts, err := k.Attempts(t.Context(), "tenant", "job")
		require.NoError(t, err)
		require.Len(t, attempts, 3)
		for _, r := range attempts {
			assert.Equal(t, processesIn(t, k)[0].ID, r.Status.Owner, "of attempt %d", r.RetryInfo.CurrentAttempt)
		}
	})
}

func TestAProcessAnnouncesItsQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		g, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: k, NumWorkers: 2}, TTL: time.Minute,
			BackgroundCreateFrequency: queue.NoBackgroundCreate,
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, g.Close(ended())) }()
		const queues = 200
		for _, name := range ids("tenant", queues) {
			open(t, g, name)
		}
		pass(2 * time.Second)
		calls, _ := k.taken()
		assert.LessOrEqual(t, len(calls), 2, "queues that open together are announced together")
		p := processesIn(t, k)[0]
		assert.Len(t, p.Queues, queues)

		pass(3 * time.Minute)
		assert.Empty(t, processesIn(t, k)[0].Queues, "the queues were pruned")
		store, ok := queue.StoreOfGroup(g)
		require.True(t, ok)
		_, isOpen := store.Queue("tenant1")
		assert.False(t, isOpen)
		opened := open(t, g, "tenant1")
		q, isOpen := store.Queue("tenant1")
		assert.True(t, isOpen)
		assert.Equal(t, opened, q)
	})
}

func TestActivityIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		q := onKeeper(t, k, "q", 2)
		require.NoError(t, q.Start(t.Context()))
		pass(time.Second)
		k.taken()
		for i := range 30 {
			put(t, q, newJob(t, fmt.Sprint("job", i), func(context.Context, *funcJob) { time.Sleep(time.Second) }))
			pass(2 * time.Second)
		}
		failing := newJob(t, "failing", func(_ context.Context, j *funcJob) { j.AddError(errors.New("no")) })
		put(t, q, failing)
		expired := noop(t, "expired")
		expired.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Hour), WaitUntil: time.Now().Add(time.Minute)})
		pass(11 * time.Second)
		calls, _ := k.taken()
		told := 0
		for _, kinds := range calls {
			if slices.Contains(kinds, activity.MinuteKind) {
				told++
			}
		}
		assert.GreaterOrEqual(t, told, 6)
		assert.LessOrEqual(t, told, 8)
		for _, kind := range []string{activity.MinuteKind, activity.HourKind, activity.SixHoursKind} {
			sum := activityIn(t, k, kind)[[2]string{"q", failing.Type().Name}]
			assert.Equal(t, 30, sum.Succeeded)
			assert.Equal(t, 1, sum.Failed)
			assert.Equal(t, time.Second, sum.Run.Max())
			assert.EqualValues(t, 31, sum.Wait.Count())
		}
		pass(time.Hour)
		calls, _ = k.taken()
		for _, kinds := range calls {
			assert.Equal(t, []string{"process"}, kinds, "no new activity")
		}
	})
}

func TestActivityIsReportedAtTheEnd(t *testing.T) {
	k := newNoteKeeper(t)
	q := onKeeper(t, k, "", 2)
	require.NoError(t, q.Start(t.Context()))
	j := noop(t, "job")
	put(t, q, j)
	drain(t, q)
	q.Close(t.Context())
	assert.Equal(t, 1, activityIn(t, k, activity.MinuteKind)[[2]string{"", j.Type().Name}].Succeeded)
	assert.Empty(t, processesIn(t, k))
}

// retryThrice puts a job that asks for two retries, and then succeeds.
func retryThrice(t *testing.T, q amboy.Queue) *funcJob {
	t.Helper()
	j := newJob(t, "retried", func(_ context.Context, j *funcJob) {
		if j.RetryInfo().CurrentAttempt < 2 {
			j.AddError(errors.New("not yet"))
			j.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: new(true)})
		}
	})
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(5)})
	put(t, q, j)
	return j
}

func TestAttemptsAreCounted(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) amboy.Queue{
		"driver": func(t *testing.T) amboy.Queue { return onKeeper(t, newNoteKeeper(t), "q", 1) },
		"local": func(t *testing.T) amboy.Queue {
			q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
			require.NoError(t, err)
			t.Cleanup(func() { q.Close(ended()) })
			return q
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open(t)
				require.NoError(t, q.Start(t.Context()))
				j := retryThrice(t, q)
				never := newJob(t, "never", func(_ context.Context, j *funcJob) {
					j.AddError(errors.New("never"))
					j.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: new(true)})
				})
				never.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(3)})
				put(t, q, never)
				drain(t, q)
				pass(2 * time.Second)
				store, ok := queue.StoreOf(q)
				require.True(t, ok)
				require.NoError(t, store.Refresh(t.Context()))
				sum := activityIn(t, store.Admin(), activity.HourKind)[[2]string{store.Queues()[0], j.Type().Name}]
				assert.Equal(t, []int{1, 1, 4}, []int{sum.Succeeded, sum.Failed, sum.Retried})
				assert.EqualValues(t, 6, sum.Run.Count())
			})
		})
	}
}

func TestNotesAreStoredOnceTheStoreAcceptsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		k.setFail(errors.New("the disk is full"))
		q := onKeeper(t, k, "q", 1)
		require.NoError(t, q.Start(t.Context()))
		j := noop(t, "job")
		put(t, q, j)
		drain(t, q)
		pass(5 * time.Minute)
		assert.Empty(t, processesIn(t, k))
		store, ok := queue.StoreOf(q)
		require.True(t, ok)
		require.ErrorContains(t, store.Refresh(t.Context()), "the disk is full")
		k.setFail(nil)
		pass(time.Minute)
		assert.Len(t, processesIn(t, k), 1)
		assert.Equal(t, 1, activityIn(t, k, activity.MinuteKind)[[2]string{"q", j.Type().Name}].Succeeded, "the activity was kept")
	})
}

func TestRefreshStoresAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		q := onKeeper(t, k, "q", 1)
		require.NoError(t, q.Start(t.Context()))
		synctest.Wait() // until the process has announced itself
		j := noop(t, "job")
		put(t, q, j)
		pass(time.Second)
		k.taken()
		store, ok := queue.StoreOf(q)
		require.True(t, ok)
		for range 10 {
			require.NoError(t, store.Refresh(t.Context()))
		}
		calls, _ := k.taken()
		assert.Equal(t, [][]string{{activity.SixHoursKind, activity.HourKind, activity.MinuteKind}}, calls)
		assert.Equal(t, 1, activityIn(t, k, activity.MinuteKind)[[2]string{"q", j.Type().Name}].Succeeded)
	})
}

func TestAnInlineQueueReportsOnRefresh(t *testing.T) {
	q, err := queue.NewInline(queue.InlineOptions{Time: time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	defer q.Close(t.Context())
	j := noop(t, "job")
	put(t, q, j)
	assert.Equal(t, 1, q.RunAll(t.Context()))
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	assert.Empty(t, processesIn(t, store.Admin()))
	require.NoError(t, store.Refresh(t.Context()))
	assert.Equal(t, q.Now(), processesIn(t, store.Admin())[0].Seen)
	assert.Equal(t, 1, activityIn(t, store.Admin(), activity.MinuteKind)[[2]string{"", j.Type().Name}].Succeeded)
	found, ok := store.Queue("")
	assert.True(t, ok)
	assert.Same(t, q, found)
	assert.False(t, store.ByReference())
}

// localGroup returns a group of queues by reference and its store.
func localGroup(t *testing.T) (amboy.QueueGroup, *queue.Store) {
	t.Helper()
	g, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
			return queue.NewLocal(queue.LocalOptions{NumWorkers: 2})
		}},
		TTL: time.Minute,
	})
	require.NoError(t, err)
	t.Cleanup(func() { closeGroup(t, g) })
	store, ok := queue.StoreOfGroup(g)
	require.True(t, ok)
	return g, store
}

func openAny(t *testing.T, g amboy.QueueGroup, name string) amboy.Queue {
	t.Helper()
	q, err := g.Get(t.Context(), name)
	require.NoError(t, err)
	return q
}

func TestALocalGroupReportsItsQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := localGroup(t)
		assert.True(t, store.ByReference())
		assert.Empty(t, store.Queues())
		a := openAny(t, g, "a")
		stored, err := queue.NewLocalLimitedSizeSerializable(2, 10)
		require.NoError(t, err)
		require.NoError(t, stored.Start(t.Context()))
		require.NoError(t, g.Put(t.Context(), "stored", stored))
		first, second := noop(t, "job"), noop(t, "job")
		put(t, a, first)
		put(t, stored, second)
		drain(t, a)
		drain(t, stored)
		require.NoError(t, stored.(amboy.ScheduleTeller).TellSchedules(t.Context(), amboy.ScheduleInfo{Name: "daily"}))
		require.NoError(t, a.(amboy.ScheduleTeller).TellSchedules(t.Context(), amboy.ScheduleInfo{Name: "daily"}))

		pass(2 * time.Second)
		require.NoError(t, store.Refresh(t.Context()))
		for _, kind := range []string{activity.MinuteKind, activity.HourKind, activity.SixHoursKind} {
			done := activityIn(t, store.Admin(), kind)
			assert.Len(t, done, 2)
			assert.Equal(t, 1, done[[2]string{"a", first.Type().Name}].Succeeded)
			assert.Equal(t, 1, done[[2]string{"stored", second.Type().Name}].Succeeded)
		}
		var names []string
		for _, p := range processesIn(t, store.Admin()) {
			require.Len(t, p.Queues, 1)
			assert.Equal(t, 2, p.Queues[0].Workers)
			names = append(names, p.Queues[0].Name)
		}
		assert.ElementsMatch(t, []string{"a", "stored"}, names)
		assert.ElementsMatch(t, []string{"a daily", "stored daily"}, schedulesIn(t, store.Admin()))

		pass(2 * time.Second)
		put(t, a, noop(t, "another"))
		drain(t, a)
		require.NoError(t, store.Refresh(t.Context()))
		assert.Equal(t, 2, activityIn(t, store.Admin(), activity.HourKind)[[2]string{"a", first.Type().Name}].Succeeded)

		pass(5 * time.Minute)
		require.NoError(t, store.Refresh(t.Context()))
		assert.Empty(t, processesIn(t, store.Admin()), "the queues were pruned")
		assert.Empty(t, schedulesIn(t, store.Admin()))
		assert.Equal(t, 2, activityIn(t, store.Admin(), activity.HourKind)[[2]string{"a", first.Type().Name}].Succeeded)
	})
}

func schedulesIn(t *testing.T, admin driver.Admin) (names []string) {
	t.Helper()
	notes, err := admin.Notes(t.Context(), driver.NoteRequest{Kind: presence.ScheduleKind, Limit: 100})
	require.NoError(t, err)
	for _, note := range notes {
		var s presence.Schedule
		require.NoError(t, presence.Decode(note, &s))
		names = append(names, s.Queue+" "+s.Name)
	}
	return names
}

func TestSchedulesAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		q := onKeeper(t, k, "q", 1)
		teller := q.(amboy.ScheduleTeller)
		next := time.Now().Add(time.Hour).UTC()
		long := fmt.Sprintf("%5000d", 1)
		require.NoError(t, teller.TellSchedules(t.Context(),
			amboy.ScheduleInfo{Name: "a", Spec: long, CatchUp: "none", Next: next, Error: "no"}, amboy.ScheduleInfo{Name: "b"}))
		notes, err := k.Notes(t.Context(), driver.NoteRequest{Kind: presence.ScheduleKind, Limit: 10})
		require.NoError(t, err)
		require.Len(t, notes, 2)
		assert.Equal(t, `["q","a"]`, notes[0].Key)
		var s presence.Schedule
		require.NoError(t, presence.Decode(notes[0], &s))
		assert.Len(t, s.Spec, 1024+len("…"))
		s.Spec = ""
		assert.Equal(t, presence.Schedule{Queue: "q", Name: "a", CatchUp: "none", Next: next, Error: "no", Seen: s.Seen}, s)
		assert.WithinDuration(t, time.Now(), s.Seen, 0)
		assert.WithinDuration(t, time.Now().Add(24*time.Hour), notes[0].Until, time.Second)

		require.NoError(t, teller.ForgetSchedules(t.Context(), "a", "unknown"))
		assert.Equal(t, []string{"q b"}, schedulesIn(t, k))
		q.Close(t.Context())
		require.ErrorIs(t, teller.TellSchedules(t.Context(), amboy.ScheduleInfo{Name: "c"}), amboy.ErrQueueClosed)
		require.ErrorIs(t, teller.ForgetSchedules(t.Context(), "b"), amboy.ErrQueueClosed)
	})
}

func sizeOf(q amboy.Queue) int { return q.Runner().(amboy.ResizableRunner).Workers() }

func TestSetWorkersAppliesToAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		here, there := onKeeper(t, k, "q", 3), onKeeper(t, k, "q", 4)
		require.NoError(t, here.Start(t.Context()))
		require.NoError(t, there.Start(t.Context()))
		pass(5 * time.Second)
		store, ok := queue.StoreOf(here)
		require.True(t, ok)
		require.NoError(t, store.SetWorkers(t.Context(), "q", 7))
		assert.Equal(t, []int{7, 4}, []int{sizeOf(here), sizeOf(there)})
		pass(2 * time.Second)
		var told []int
		for _, p := range processesIn(t, k) {
			told = append(told, p.Queues[0].Workers)
		}
		assert.ElementsMatch(t, []int{7, 4}, told)
		pass(time.Minute)
		assert.Equal(t, []int{7, 7}, []int{sizeOf(here), sizeOf(there)})
		late := onKeeper(t, k, "q", 1)
		require.NoError(t, late.Start(t.Context()))
		synctest.Wait()
		assert.Equal(t, 7, sizeOf(late))

		require.NoError(t, store.SetWorkers(t.Context(), "q", 0))
		assert.Equal(t, 3, sizeOf(here))
		pass(time.Minute)
		assert.Equal(t, []int{3, 4, 1}, []int{sizeOf(here), sizeOf(there), sizeOf(late)})
	})
}

func TestSetWorkersOfATenant(t *testing.T) {
	for name, newGroup := range map[string]func(t *testing.T) amboy.QueueGroup{
		"driver group": func(t *testing.T) amboy.QueueGroup {
			g, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
				DefaultQueue: queue.DriverQueueOptions{Driver: newNoteKeeper(t), NumWorkers: 2}, TTL: time.Minute,
			})
			require.NoError(t, err)
			return g
		},
		"local group": func(t *testing.T) amboy.QueueGroup {
			g, _ := localGroup(t)
			return g
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t)
				defer func() { assert.NoError(t, g.Close(ended())) }()
				store, ok := queue.StoreOfGroup(g)
				require.True(t, ok)
				a, b := openAny(t, g, "a"), openAny(t, g, "b")
				require.NoError(t, store.SetWorkers(t.Context(), "a", 5))
				require.NoError(t, store.SetWorkers(t.Context(), "later", 6))
				assert.Equal(t, []int{5, 2}, []int{sizeOf(a), sizeOf(b)})
				assert.Equal(t, 6, sizeOf(openAny(t, g, "later")))
				pass(5 * time.Minute)
				require.Zero(t, g.Len())
				assert.Equal(t, []int{5, 2}, []int{sizeOf(openAny(t, g, "a")), sizeOf(openAny(t, g, "b"))}, "opened again")
			})
		})
	}
}

func TestSetWorkersOfALocalQueue(t *testing.T) {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(ended())
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	require.NoError(t, store.SetWorkers(t.Context(), q.ID(), 2))
	require.NoError(t, q.SetRunner(pool.NewLocalWorkers(3, q)))
	require.NoError(t, q.Start(t.Context()))
	assert.Equal(t, 2, sizeOf(q), "set before the runner")
	require.NoError(t, store.SetWorkers(t.Context(), q.ID(), 4))
	assert.Equal(t, 4, sizeOf(q))
	require.NoError(t, store.SetWorkers(t.Context(), q.ID(), 0))
	assert.Equal(t, 3, sizeOf(q))
}

func TestSetWorkersIsRefused(t *testing.T) {
	k := newNoteKeeper(t)
	q := onKeeper(t, k, "q", 1)
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	for _, n := range []int{-1, 10_001} {
		require.ErrorContains(t, store.SetWorkers(t.Context(), "q", n), "must be from 0 to 10000")
	}
	require.ErrorContains(t, store.SetWorkers(t.Context(), "another", 1), `must be one of ["q"]`)
	notes, err := k.Notes(t.Context(), driver.NoteRequest{Kind: presence.WorkersKind, Limit: 1})
	require.NoError(t, err)
	assert.Empty(t, notes)
}

// fixedRunner can't be resized.
type fixedRunner struct{ amboy.Runner }

func TestARunnerThatCannotBeResizedIsUnchanged(t *testing.T) {
	k := newNoteKeeper(t)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver:    k,
		NewRunner: func(q amboy.Queue) (amboy.Runner, error) { return fixedRunner{pool.NewLocalWorkers(2, q)}, nil },
	})
	require.NoError(t, err)
	defer q.Close(ended())
	require.NoError(t, q.Start(t.Context()))
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	require.NoError(t, store.SetWorkers(t.Context(), "", 9))
	require.NoError(t, store.Refresh(t.Context()))
	assert.Equal(t, 0, processesIn(t, k)[0].Queues[0].Workers)
}

func TestMarkCompleteOfALocalQueue(t *testing.T) {
	g, store := localGroup(t)
	q := openAny(t, g, "a")
	j, started, release := holder(t, "runs")
	put(t, q, j)
	<-started
	waiting := noop(t, "waits")
	waiting.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	put(t, q, waiting)
	recordOf := func(id string) *driver.Record {
		r, err := store.Admin().Get(t.Context(), "a", id)
		require.NoError(t, err)
		return r
	}
	runs, waits := recordOf("runs"), recordOf("waits")
	old := *runs
	old.Status.ModificationCount--
	unknown := *waits
	unknown.Group = "unknown"
	errs := store.MarkComplete(t.Context(), []*driver.Record{&old, runs, waits, waits, &unknown})
	require.ErrorIs(t, errs[0], amboy.ErrLeaseLost)
	require.NoError(t, errs[1])
	require.NoError(t, errs[2])
	require.ErrorIs(t, errs[3], amboy.ErrLeaseLost, "the job has ended")
	assert.True(t, amboy.IsJobNotFoundError(errs[4]))
	release()
	drain(t, q)
	for _, id := range []string{"runs", "waits"} {
		assert.Equal(t, amboy.StateSucceeded, driver.StateOf(recordOf(id), time.Now()))
	}
}

// TestTheStoreOfAMongoDBGroup has queues with engines of their own.
func TestTheStoreOfAMongoDBGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		g := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) {
			o.PerQueue = map[string]queue.MongoDBQueueOptions{"apart": {DB: &queue.MongoDBOptions{LockTimeout: time.Minute}}}
		})
		a, apart := open(t, g, "a"), open(t, g, "apart")
		store, ok := queue.StoreOfGroup(g)
		require.True(t, ok)
		assert.Empty(t, store.Queues())
		assert.False(t, store.ByReference())
		require.NoError(t, store.SetWorkers(t.Context(), "apart", 5))
		assert.Equal(t, 5, sizeOf(apart))
		for name, q := range map[string]amboy.Queue{"a": a, "apart": apart} {
			found, isOpen := store.Queue(name)
			assert.True(t, isOpen)
			assert.Same(t, q, found)
			put(t, q, noop(t, "job"))
			drain(t, q)
		}
		pass(2 * time.Second)
		require.NoError(t, store.Refresh(t.Context()))
		done := activityIn(t, store.Admin(), activity.HourKind)
		assert.Len(t, done, 2)
		var queues []presence.Queue
		for _, p := range processesIn(t, store.Admin()) {
			queues = append(queues, p.Queues...)
		}
		assert.ElementsMatch(t, []presence.Queue{
			{Name: "a", Workers: sizeOf(a), Started: true}, {Name: "apart", Workers: 5, Started: true},
		}, queues)

		waiting := noop(t, "waits")
		waiting.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
		put(t, apart, waiting)
		r, err := store.Admin().Get(t.Context(), "apart", "waits")
		require.NoError(t, err)
		assert.Equal(t, []error{nil}, store.MarkComplete(t.Context(), []*driver.Record{r}))
		drain(t, apart)
	})
}

// TestAProcessWhoseClockWasAheadKeptOthersFromCountingForADay stores what such a process leaves: turns
// that end tomorrow.
func TestAProcessWhoseClockWasAheadKeptOthersFromCountingForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		tomorrow := time.Now().Add(24 * time.Hour)
		for kind, key := range map[string]string{"backlog turn": "next", "type counts": "next"} {
			require.NoError(t, store.Keep(t.Context(), driver.Note{Kind: kind, Key: key, Until: tomorrow}))
		}
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
		put(t, q, noop(t, "waits"))
		s, ok := queue.StoreOf(q)
		require.True(t, ok)
		_, err := s.TypeCounts(t.Context())
		require.NoError(t, err)
		pass(5 * time.Minute)
		samples, err := store.Notes(t.Context(), driver.NoteRequest{Kind: activity.BacklogMinuteKind, Limit: 10})
		require.NoError(t, err)
		assert.NotEmpty(t, samples)
		counts, err := s.TypeCounts(t.Context())
		require.NoError(t, err)
		assert.Len(t, counts.Counts, 1)
	})
}
