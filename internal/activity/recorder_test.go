package activity_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue/driver"
)

var noon = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

// sumOf adds up the rows of all buckets of a step.
func sumOf(buckets []activity.Bucket, step activity.Step) (sum activity.Row) {
	for _, b := range buckets {
		if b.Step != step {
			continue
		}
		for _, row := range b.Rows {
			sum.Add(row)
		}
	}
	return sum
}

func TestARecorderCountsByTheMinuteTheHourAndSixHours(t *testing.T) {
	r := activity.NewRecorder()
	assert.True(t, r.Ended(noon, "q", "a", activity.Succeeded, time.Second, 2*time.Second), "the first")
	assert.False(t, r.Ended(noon.Add(time.Second), "q", "b", activity.Failed, activity.NotRun, activity.NotRun))
	r.Ended(noon.Add(time.Minute), "q", "a", activity.Retried, 3*time.Second, time.Second)

	changed, version := r.Changed(noon.Add(61*time.Second), 0)
	require.Len(t, changed, 4)
	six, hour, first, second := changed[0], changed[1], changed[2], changed[3]
	assert.Equal(t, []activity.Step{activity.SixHours, activity.Hour, activity.Minute, activity.Minute}, []activity.Step{six.Step, hour.Step, first.Step, second.Step})
	assert.Equal(t, noon, six.Start)
	assert.Equal(t, hour.Rows, six.Rows)
	assert.Equal(t, noon, hour.Start)
	assert.Equal(t, noon, first.Start)
	assert.Equal(t, noon.Add(time.Minute), second.Start)
	require.Len(t, hour.Rows, 2)
	a, b := hour.Rows[0], hour.Rows[1]
	assert.Equal(t, []any{"q", "a", 1, 0, 1}, []any{a.Queue, a.Type, a.Succeeded, a.Failed, a.Retried})
	assert.Equal(t, []any{"q", "b", 0, 1, 0}, []any{b.Queue, b.Type, b.Succeeded, b.Failed, b.Retried})
	assert.Equal(t, 3*time.Second, a.Wait.Max())
	assert.Equal(t, 2*time.Second, a.Run.Max())
	assert.EqualValues(t, 0, b.Wait.Count(), "it was not run")
	require.Len(t, second.Rows, 1)
	assert.Equal(t, 1, second.Rows[0].Retried)

	assert.True(t, r.Ended(noon.Add(62*time.Second), "q", "a", activity.Succeeded, 0, 0), "the first since")
	changed, _ = r.Changed(noon.Add(63*time.Second), version)
	require.Len(t, changed, 3, "the first minute is unchanged")
	assert.Equal(t, 2, sumOf(changed, activity.Hour).Succeeded)
	assert.Equal(t, 1, sumOf(changed, activity.Minute).Succeeded)
	assert.Equal(t, 1, first.Rows[0].Succeeded, "a copy")
}

func TestARecorderForgets(t *testing.T) {
	r := activity.NewRecorder()
	r.Ended(noon, "q", "a", activity.Succeeded, 0, 0)
	r.Ended(noon.Add(time.Minute), "q", "a", activity.Succeeded, 0, 0)
	_, version := r.Changed(noon.Add(time.Minute), 0)
	r.Forget(version)
	changed, _ := r.Changed(noon.Add(time.Minute), 0)
	require.Len(t, changed, 3, "the past minute was removed")
	assert.Equal(t, 2, sumOf(changed, activity.Hour).Succeeded)

	changed, _ = r.Changed(noon.Add(3*time.Hour), 0)
	require.Len(t, changed, 2)
	assert.Equal(t, activity.Hour, changed[1].Step)
	changed, _ = r.Changed(noon.Add(50*time.Hour), 0)
	require.Len(t, changed, 1)
	assert.Equal(t, activity.SixHours, changed[0].Step)
	changed, _ = r.Changed(noon.Add(31*24*time.Hour), 0)
	assert.Empty(t, changed)
}

func TestARecorderAndTheClock(t *testing.T) {
	r := activity.NewRecorder()
	r.Ended(noon, "q", "a", activity.Succeeded, 0, 0)
	r.Ended(noon.Add(-time.Millisecond), "q", "a", activity.Succeeded, 0, 0)
	changed, version := r.Changed(noon, 0)
	assert.Len(t, changed, 3, "an end that is reported too late counts as one of the current minute")
	r.Ended(noon.Add(-time.Hour), "q", "a", activity.Succeeded, 0, 0)
	changed, _ = r.Changed(noon.Add(-time.Hour), version)
	require.Len(t, changed, 3)
	assert.Equal(t, noon.Add(-time.Hour), changed[1].Start, "the clock was turned back")
}

func TestARecorderCombinesExcessRows(t *testing.T) {
	r := activity.NewRecorder()
	const types = 2000
	for i := range types {
		at := noon.Add(time.Duration(i/600) * time.Minute)
		r.Ended(at, fmt.Sprint("queue", i%7), fmt.Sprint("type", i), activity.Succeeded, time.Second, time.Second)
	}
	changed, _ := r.Changed(noon.Add(4*time.Minute), 0)
	for _, b := range changed {
		assert.LessOrEqual(t, len(b.Rows), activity.MaxRows)
		assert.Equal(t, [2]string{}, [2]string{b.Rows[0].Queue, b.Rows[0].Type})
	}
	assert.Equal(t, types, sumOf(changed, activity.Hour).Succeeded)
	assert.Equal(t, types, sumOf(changed, activity.Minute).Succeeded)
}

func TestARecorderOfManyWorkers(t *testing.T) {
	r := activity.NewRecorder()
	const workers, each = 8, 5000
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for i := range each {
				at := noon.Add(time.Duration(i) * 50 * time.Millisecond)
				r.Ended(at, "q", fmt.Sprint(w%3), activity.Outcome(i%3), time.Duration(i)*time.Microsecond, time.Millisecond)
				if i%1000 == 0 {
					r.Changed(at, 0)
				}
			}
		})
	}
	working.Wait()
	changed, _ := r.Changed(noon.Add(10*time.Minute), 0)
	for _, step := range []activity.Step{activity.Minute, activity.Hour, activity.SixHours} {
		sum := sumOf(changed, step)
		assert.Equal(t, workers*each, sum.Succeeded+sum.Failed+sum.Retried)
		assert.EqualValues(t, workers*each, sum.Wait.Count())
	}
}

func TestANoteOfABucket(t *testing.T) {
	r := activity.NewRecorder()
	for i := range 1000 {
		r.Ended(noon.Add(time.Second), "q", "a", activity.Outcome(i%3), time.Duration(i)*time.Millisecond, time.Duration(i)*time.Hour)
	}
	changed, _ := r.Changed(noon, 0)
	for i, kind := range []string{activity.SixHoursKind, activity.HourKind, activity.MinuteKind} {
		note, err := changed[i].Note("process.1")
		require.NoError(t, err)
		require.NoError(t, note.Validate())
		assert.Equal(t, kind, note.Kind)
		assert.Equal(t, "2030-01-31T12:00Z process.1", note.Key)
		read, err := activity.Decode(note.Value)
		require.NoError(t, err)
		again, err := read.Encode()
		require.NoError(t, err)
		assert.Equal(t, note.Value, again)
		assert.Equal(t, changed[i].Start, read.Start)
		assert.Equal(t, changed[i].Step, read.Step)
		assert.Equal(t, changed[i].Rows[0].Wait.Percentile(90), read.Rows[0].Wait.Percentile(90))
	}
}

func TestABucketThatIsTooLargeForANote(t *testing.T) {
	long := make([]byte, 10_000)
	b := activity.Bucket{Start: noon}
	for i := range 400 {
		b.Rows = append(b.Rows, activity.Row{Queue: string(long), Type: fmt.Sprint(i), Succeeded: 1})
	}
	encoded, err := b.Encode()
	require.NoError(t, err)
	assert.LessOrEqual(t, len(encoded), driver.MaxNoteBytes)
	read, err := activity.Decode(encoded)
	require.NoError(t, err)
	assert.Equal(t, 400, sumOf([]activity.Bucket{read}, activity.Minute).Succeeded)
	assert.Len(t, b.Rows, 400, "unchanged")
}

func TestDecodeRefusesOtherBytes(t *testing.T) {
	r := activity.NewRecorder()
	r.Ended(noon, "q", "a", activity.Succeeded, time.Second, time.Second)
	changed, _ := r.Changed(noon, 0)
	encoded, err := changed[0].Encode()
	require.NoError(t, err)
	for i := range encoded {
		_, err = activity.Decode(encoded[:i])
		require.Error(t, err, "%d bytes", i)
	}
	_, err = activity.Decode(append(encoded, 0))
	require.ErrorContains(t, err, "more after the end")
	encoded[0] = 9
	_, err = activity.Decode(encoded)
	assert.ErrorContains(t, err, "format 9")
}

func FuzzDecode(f *testing.F) {
	r := activity.NewRecorder()
	r.Ended(noon, "q", "a", activity.Succeeded, time.Second, time.Minute)
	changed, _ := r.Changed(noon, 0)
	encoded, err := changed[0].Encode()
	require.NoError(f, err)
	f.Add(encoded)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := activity.Decode(data)
		if err != nil {
			return
		}
		again, err := b.Encode()
		require.NoError(t, err)
		_, err = activity.Decode(again)
		require.NoError(t, err)
	})
}

func TestPercentiles(t *testing.T) {
	var h activity.Histogram
	assert.Zero(t, h.Percentile(50))
	assert.Zero(t, h.Max())
	for i := 1; i <= 10_000; i++ {
		h.Record(time.Duration(i) * time.Millisecond)
	}
	for _, percent := range []float64{1, 10, 50, 90, 99} {
		exact := time.Duration(percent * 100 * float64(time.Millisecond))
		assert.InEpsilon(t, exact, h.Percentile(percent), 0.04, "%v", percent)
	}
	assert.Equal(t, 10*time.Second, h.Percentile(100))
	h.Record(100 * time.Hour)
	assert.Equal(t, activity.Longest, h.Max())
	h.Record(-time.Hour)
	assert.EqualValues(t, 10_002, h.Count())
}

// TestARecorderDoesNotAllocate and the benchmark below bound the cost for each job.
func TestARecorderDoesNotAllocate(t *testing.T) {
	r := activity.NewRecorder()
	i := 0
	record := func() {
		r.Ended(noon, "queue", "type", activity.Succeeded, time.Duration(i%1000)*time.Microsecond, time.Millisecond)
		i++
	}
	record()
	assert.Zero(t, testing.AllocsPerRun(10_000, record))
}

func BenchmarkEnded(b *testing.B) {
	for _, types := range []int{1, 20, 400} {
		b.Run(fmt.Sprint(types, " types"), func(b *testing.B) {
			names := make([]string, types)
			for i := range names {
				names[i] = fmt.Sprint("a type of jobs ", i)
			}
			r := activity.NewRecorder()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Ended(noon, "some queue", names[i%types], activity.Succeeded, time.Duration(i%5000)*time.Microsecond, time.Duration(i%300)*time.Microsecond)
			}
		})
	}
}

func BenchmarkEndedByManyWorkers(b *testing.B) {
	r := activity.NewRecorder()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Ended(noon, "some queue", "some type", activity.Succeeded, time.Millisecond, 3*time.Millisecond)
		}
	})
}

// BenchmarkChanged measures the time that Changed holds the lock, every ten seconds.
func BenchmarkChanged(b *testing.B) {
	r := activity.NewRecorder()
	for b.Loop() {
		b.StopTimer()
		for i := range 400 {
			r.Ended(noon, "some queue", fmt.Sprint(i), activity.Succeeded, time.Duration(i)*time.Millisecond, time.Duration(i)*time.Microsecond)
		}
		b.StartTimer()
		r.Changed(noon, 0)
	}
}

func TestTotalsCountInBuckets(t *testing.T) {
	r := activity.NewRecorder()
	longest := activity.Bounds[len(activity.Bounds)-1]
	for _, run := range []time.Duration{0, activity.Bounds[0], activity.Bounds[0] + 1, longest, longest + 1, activity.NotRun} {
		r.Ended(noon, "q", "a", activity.Succeeded, activity.NotRun, run)
	}
	totals := r.Totals()
	require.Len(t, totals, 1)
	times := totals[0].Run
	assert.EqualValues(t, 5, times.Count)
	assert.Equal(t, 2*activity.Bounds[0]+2*longest+2, times.Sum)
	assert.EqualValues(t, 2, times.Buckets[0])
	assert.EqualValues(t, 1, times.Buckets[1])
	assert.EqualValues(t, 1, times.Buckets[len(times.Buckets)-1])
	assert.Zero(t, totals[0].Wait.Count)
	assert.EqualValues(t, 6, totals[0].Succeeded)
}

func TestTotalsStayWhenRowsAreForgottenAndAreBounded(t *testing.T) {
	r := activity.NewRecorder()
	at := noon
	for i := range 2 * activity.MaxRows {
		r.Ended(at, fmt.Sprint("q", i), "a", activity.Outcome(i%3), time.Second, time.Second)
		at = at.Add(time.Minute)
	}
	_, version := r.Changed(at, 0)
	r.Forget(version)
	totals := r.Totals()
	require.Len(t, totals, activity.MaxRows)
	var sum activity.Total
	for i, total := range totals[:activity.MaxRows-1] {
		assert.Equal(t, fmt.Sprint("q", i), total.Queue, "in the order of their first ends")
		sum.Add(total)
	}
	rest := totals[activity.MaxRows-1]
	assert.Empty(t, rest.Queue+rest.Type)
	sum.Add(rest)
	assert.EqualValues(t, 2*activity.MaxRows, sum.Succeeded+sum.Failed+sum.Retried)
	assert.EqualValues(t, 2*activity.MaxRows, sum.Wait.Count)
}
