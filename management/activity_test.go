package management_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// TestActivityOfAQueue reads the activity that the queues themselves record.
func TestActivityOfAQueue(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup}, func(f *inspected) {
		f.put(newTask("a", "alpha"), newTask("b", "alpha"), f.fail("c", "beta"))
		f.wait("a", "b", "c")
		var got management.Activity
		for got.Sum.Succeeded+got.Sum.Failed < 3 { // a waiter may wake up before the end of the job is counted
			require.NoError(f, f.ctx.Err())
			var err error
			got, err = f.Activity(f.ctx, management.ActivityRequest{Queues: []string{f.name}})
			require.NoError(f, err)
		}
		require.Len(f, got.Rows, 2)
		assert.Equal(f, []string{"alpha", "beta"}, []string{got.Rows[0].Type, got.Rows[1].Type})
		assert.Equal(f, f.name, got.Rows[0].Queue)
		assert.Equal(f, 2, got.Rows[0].Succeeded)
		assert.Equal(f, 1, got.Rows[1].Failed)
		assert.InDelta(f, 1, got.Rows[1].FailureRate, 0.001)
		assert.Len(f, got.Points, 60)
	})
}

// newInspectorOfNotes returns an inspector of a store that contains notes.
func newInspectorOfNotes(t *testing.T, notes ...driver.Note) management.Inspector {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(ended()) })
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	require.NoError(t, store.Admin().Keep(t.Context(), notes...))
	return i
}

func bucketOf(start time.Time, hour bool, rows ...activity.Row) activity.Bucket {
	step := activity.Minute
	if hour {
		step = activity.Hour
	}
	return activity.Bucket{Start: start, Step: step, Rows: rows}
}

func rowOf(name, jobType string, succeeded, failed int, run ...time.Duration) activity.Row {
	r := activity.Row{Queue: name, Type: jobType, Succeeded: succeeded, Failed: failed}
	for _, d := range run {
		r.Run.Record(d)
	}
	return r
}

// TestActivityOfProcesses adds up the notes of several processes.
func TestActivityOfProcesses(t *testing.T) {
	now := time.Now().UTC()
	minute, hour := now.Truncate(time.Minute), now.Truncate(time.Hour)
	var notes []driver.Note
	for process, buckets := range map[string][]activity.Bucket{
		"one": {
			bucketOf(minute, false, rowOf("", "alpha", 3, 1, time.Second), rowOf("another", "alpha", 100, 0)),
			bucketOf(minute.Add(-time.Minute), false, rowOf("", "beta", 1, 0)),
			bucketOf(hour.Add(-24*time.Hour), true, rowOf("", "alpha", 50, 0)),
		},
		"two": {
			bucketOf(minute, false, rowOf("", "alpha", 5, 1, 3*time.Second)),
			bucketOf(minute.Add(-time.Hour), false, rowOf("", "alpha", 1000, 0)), // before the requested period
		},
	} {
		for _, b := range buckets {
			note, err := b.Note(process)
			require.NoError(t, err)
			note.Until = inAnHour()
			notes = append(notes, note)
		}
	}
	i := newInspectorOfNotes(t, notes...)
	got, err := i.Activity(t.Context(), management.ActivityRequest{Last: 10 * time.Minute})
	require.NoError(t, err)
	require.Len(t, got.Points, 10)
	assert.InDelta(t, 60, got.Step, 0)
	assert.Equal(t, got.From, got.Points[0].Time)
	assert.Equal(t, got.To, got.Points[9].Time.Add(time.Minute))
	assert.Equal(t, 9, got.Sum.Succeeded)
	assert.Equal(t, 2, got.Sum.Failed)
	require.Len(t, got.Rows, 2)
	alpha := got.Rows[0]
	assert.Equal(t, 8, alpha.Succeeded)
	assert.InDelta(t, 0.2, alpha.FailureRate, 0.001)
	assert.InDelta(t, 3, alpha.Run.Max, 0.01)
	assert.InDelta(t, 1, alpha.Run.P50, 0.1)
	sum := 0
	for _, p := range got.Points {
		sum += p.Succeeded
	}
	assert.Equal(t, 9, sum)

	got, err = i.Activity(t.Context(), management.ActivityRequest{Types: []string{"beta"}})
	require.NoError(t, err)
	assert.Equal(t, 1, got.Sum.Succeeded)
	got, err = i.Activity(t.Context(), management.ActivityRequest{Last: 48 * time.Hour})
	require.NoError(t, err)
	assert.Equal(t, 50, got.Sum.Succeeded)
	assert.Len(t, got.Points, 48)
	assert.InDelta(t, 3600, got.Step, 0)
}

func TestSchedules(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	var notes []driver.Note
	for _, s := range []presence.Schedule{
		{Queue: "", Name: "nightly", Spec: "0 3 * * *", CatchUp: "latest", Next: now, Seen: now, Error: "no room"},
		{Queue: "", Name: "hourly", Seen: now},
		{Queue: "another", Name: "secret", Seen: now},
	} {
		note, err := s.Note()
		require.NoError(t, err)
		notes = append(notes, note)
	}
	got, err := newInspectorOfNotes(t, notes...).Schedules(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []management.Schedule{
		{Name: "hourly", Seen: now},
		{Name: "nightly", Spec: "0 3 * * *", CatchUp: "latest", Next: now, Seen: now, Error: "no room"},
	}, got)
}

func TestProcesses(t *testing.T) {
	now := time.Now().UTC()
	var notes []driver.Note
	for _, p := range []presence.Process{
		{ID: "here", Host: "a", PID: 7, Started: now.Add(-time.Hour), Seen: now, Queues: []presence.Queue{{Name: "", Workers: 3}, {Name: "another"}}},
		{ID: "gone", Host: "b", PID: 8, Started: now.Add(-2 * time.Hour), Seen: now.Add(-3 * time.Minute), Queues: []presence.Queue{{Name: ""}}},
		{ID: "of another queue", Started: now, Seen: now, Queues: []presence.Queue{{Name: "another"}}},
	} {
		note, err := p.Note()
		require.NoError(t, err)
		notes = append(notes, note)
	}
	got, err := newInspectorOfNotes(t, notes...).Processes(t.Context())
	require.NoError(t, err)
	got = slices.DeleteFunc(got, func(p management.Process) bool { return p.PID == os.Getpid() })
	require.Len(t, got, 2)
	assert.Equal(t, "gone", got[0].ID)
	assert.False(t, got[0].Alive)
	assert.Equal(t, management.Process{
		ID: "here", Host: "a", PID: 7, Started: now.Add(-time.Hour), Seen: now, Alive: true,
		Queues: []management.ProcessQueue{{Workers: 3}}, Running: []management.JobSummary{},
	}, got[1])
}

// A process of an older version does not report itself. It is listed because of the jobs
// that it runs.
func TestProcessThatDoesNotReportItselfIsListed(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		if !f.stored {
			f.Skip("no other process uses this queue")
		}
		f.hold("one", "alpha")
		f.hold("two", "alpha")
		f.put(newTask("there", "beta"))
		f.claim("there")
		got, err := f.Processes(f.ctx)
		require.NoError(f, err)
		n := 0
		for _, p := range got {
			if p.ID == "another process" {
				n++
				assert.True(f, p.Alive)
				assert.Equal(f, management.Count{Count: 1}, p.RunningCount)
				assert.Equal(f, amboy.StateRunning, p.Running[0].State)
			}
		}
		assert.Equal(f, 1, n)
	})
}

// All scopes of a job are on the same page.
func TestPagesOfScopesDoNotSplitAJob(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		want := map[string]string{}
		for id, scopes := range map[string][]string{"one": {"a"}, "two": {"b", "c"}, "three": {"d", "e", "f", "g"}} {
			j := newTask(id, "alpha")
			j.SetScopes(scopes)
			j.SetEnqueueAllScopes(true)
			j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
			f.put(j)
			for _, s := range scopes {
				want[s] = id
			}
		}
		got := map[string]string{}
		page := management.PageRequest{Limit: 3}
		for {
			found, err := f.Scopes(f.ctx, management.ScopeFilter{}, page)
			require.NoError(f, err)
			for _, s := range found.Scopes {
				require.NotContains(f, got, s.Name)
				got[s.Name] = s.Holder.ID
				assert.False(f, s.Since.IsZero())
			}
			if found.Next == "" {
				break
			}
			page.Cursor = found.Next
		}
		assert.Equal(f, want, got)
		found, err := f.Scopes(f.ctx, management.ScopeFilter{Name: "e"}, management.PageRequest{})
		require.NoError(f, err)
		require.Len(f, found.Scopes, 1)
		assert.Equal(f, "three", found.Scopes[0].Holder.ID)
	})
}

// The box of the page of scopes asked for the whole name, in its case.
func TestPartOfTheNameOfAScopeFoundNothing(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		put := func(id string, scopes ...string) {
			j := newTask(id, "alpha")
			j.SetScopes(scopes)
			j.SetEnqueueAllScopes(true)
			j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
			f.put(j)
		}
		put("one", "Customer 1", "ledger")
		put("two", "disk")
		put("three", "customer 2", "customer 3")
		put("four", "customer 4")
		for part, want := range map[string][]string{
			"CUST": {"Customer 1", "customer 2", "customer 3", "customer 4"},
			"edge": {"ledger"},
			"":     {"Customer 1", "customer 2", "customer 3", "customer 4", "disk", "ledger"},
			"none": nil,
		} {
			for limit := range 4 {
				var got []string
				page := management.PageRequest{Limit: limit}
				for {
					found, err := f.Scopes(f.ctx, management.ScopeFilter{Part: part}, page)
					require.NoError(f, err)
					for _, s := range found.Scopes {
						got = append(got, s.Name)
					}
					if found.Next == "" {
						break
					}
					page.Cursor = found.Next
				}
				slices.Sort(got)
				assert.Equal(f, want, got, "%q, %d a page", part, limit)
			}
		}
	})
}

// A page reads a bounded number of jobs, however rare the part is.
func TestPageOfScopesWithARarePartIsBounded(t *testing.T) {
	const jobs = 10_001
	all := make([]amboy.Job, jobs)
	for i := range all {
		j := newTask(fmt.Sprintf("job %05d", i), "alpha")
		j.SetScopes([]string{fmt.Sprintf("disk %d", i)})
		j.SetEnqueueAllScopes(true)
		j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
		all[i] = j
	}
	all[jobs-1].SetScopes([]string{"rare"})
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(t.Context())
	require.NoError(t, q.PutMany(t.Context(), all))
	inspector, err := management.NewInspector(q)
	require.NoError(t, err)
	filter := management.ScopeFilter{Part: "RAR"}
	first, err := inspector.Scopes(t.Context(), filter, management.PageRequest{})
	require.NoError(t, err)
	require.Empty(t, first.Scopes)
	require.NotEmpty(t, first.Next)
	second, err := inspector.Scopes(t.Context(), filter, management.PageRequest{Cursor: first.Next})
	require.NoError(t, err)
	require.Len(t, second.Scopes, 1)
	assert.Equal(t, "rare", second.Scopes[0].Name)
	assert.Empty(t, second.Next)
}

// The average over the chosen period showed 0.2 jobs per minute while 100 ran.
func TestCurrentThroughputIsThatOfTheLastMinute(t *testing.T) {
	now := time.Now().UTC()
	minute := now.Truncate(time.Minute)
	row := rowOf("", "alpha", 600, 0)
	for range 600 {
		row.Wait.Record(2 * time.Second)
	}
	var notes []driver.Note
	for _, bucket := range []activity.Bucket{
		bucketOf(minute.Add(-time.Minute), false, row), bucketOf(minute, false, row), bucketOf(minute.Add(-2*time.Minute), false, rowOf("", "alpha", 10_000, 0)),
		bucketOf(now.Truncate(time.Hour), true, row),
	} {
		note, err := bucket.Note("one")
		require.NoError(t, err)
		notes = append(notes, note)
	}
	i := newInspectorOfNotes(t, notes...)
	for _, last := range []time.Duration{15 * time.Minute, 48 * time.Hour} {
		got, err := i.Activity(t.Context(), management.ActivityRequest{Last: last})
		require.NoError(t, err)
		// The running minute counts in full, and the minute before in part.
		assert.GreaterOrEqual(t, got.Sum.Current, 10.0)
		assert.LessOrEqual(t, got.Sum.Current, 20.0)
		assert.InDelta(t, got.Sum.Current, got.Rows[0].Current, 0.001)
		assert.InDelta(t, 2, got.Points[len(got.Points)-1].WaitP99, 0.1)
	}
}

func TestActivityOfThirtyDaysIsInStepsOfSixHours(t *testing.T) {
	now := time.Now().UTC()
	six := now.Truncate(6 * time.Hour)
	var notes []driver.Note
	for _, days := range []int{0, 12, 29} {
		note, err := activity.Bucket{Start: six.AddDate(0, 0, -days), Step: activity.SixHours, Rows: []activity.Row{rowOf("", "alpha", 1, 0)}}.Note("one")
		require.NoError(t, err)
		notes = append(notes, note)
	}
	i := newInspectorOfNotes(t, notes...)
	got, err := i.Activity(t.Context(), management.ActivityRequest{Last: management.MaxActivity})
	require.NoError(t, err)
	assert.Equal(t, 3, got.Sum.Succeeded)
	assert.Len(t, got.Points, 120)
	assert.InDelta(t, 6*3600, got.Step, 0)
	_, err = i.Activity(t.Context(), management.ActivityRequest{Last: management.MaxActivity + 1})
	require.Error(t, err)
}

// A process with very many queues was listed as if it had no others, and by the inspector of a queue that its report
// leaves out not at all.
func TestProcessWithMoreQueuesThanItsReportHas(t *testing.T) {
	now := time.Now().UTC()
	p := presence.Process{ID: "large", Host: "a", PID: 7, Started: now.Add(-time.Hour), Seen: now}
	for n := range 30_000 {
		p.Queues = append(p.Queues, presence.Queue{Name: fmt.Sprint("tenant-", n), Workers: 3, Started: true})
	}
	note, err := p.Note()
	require.NoError(t, err)
	got, err := newInspectorOfNotes(t, note).Processes(t.Context())
	require.NoError(t, err)
	got = slices.DeleteFunc(got, func(p management.Process) bool { return p.PID == os.Getpid() })
	require.Len(t, got, 1)
	assert.True(t, got[0].MoreQueues)
}
