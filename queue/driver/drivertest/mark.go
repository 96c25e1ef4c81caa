package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var markRules = []rule{
	{"raising a mark returns its previous value", markRaised},
	{"a mark is never lowered", markNeverLowered},
	{"the zero time reads a mark without creating it", markRead},
	{"marks are distinguished by name and queue", markNames},
	{"a mark is kept to the millisecond", markPrecision},
	{"a mark creates no queue and outlives its jobs", markOfNoQueue},
}

// mark raises a mark of the test's queue and returns its previous value.
func (f *fixture) mark(name string, at time.Time) time.Time {
	f.Helper()
	last, err := f.driver.Mark(f.ctx, f.queue, name, at)
	require.NoError(f, err)
	return last
}

func markRaised(f *fixture) {
	assert.Zero(f, f.mark("mark", f.after(1)))
	assert.Equal(f, f.after(1).UTC(), f.mark("mark", f.after(2)))
	assert.Equal(f, f.after(2).UTC(), f.mark("mark", f.after(2)))
}

func markNeverLowered(f *fixture) {
	f.mark("mark", f.after(2))
	assert.Equal(f, f.after(2).UTC(), f.mark("mark", f.after(1)))
	assert.Equal(f, f.after(2).UTC(), f.mark("mark", f.after(-9)))
	assert.Equal(f, f.after(2).UTC(), f.mark("mark", time.Time{}))
}

func markRead(f *fixture) {
	assert.Zero(f, f.mark("mark", time.Time{}))
	f.mark("mark", f.after(1))
	for range 2 {
		assert.Equal(f, f.after(1).UTC(), f.mark("mark", time.Time{}))
	}
}

func markNames(f *fixture) {
	other, unnamed := f.in("other"), f.in("")
	f.mark("mark", f.after(1))
	f.mark("Mark", f.after(2))
	other.mark("mark", f.after(3))
	unnamed.mark("mark", f.after(4))
	f.mark("a.b $c", f.after(5))
	assert.Equal(f, f.after(1).UTC(), f.mark("mark", time.Time{}))
	assert.Equal(f, f.after(2).UTC(), f.mark("Mark", time.Time{}))
	assert.Equal(f, f.after(3).UTC(), other.mark("mark", time.Time{}))
	assert.Equal(f, f.after(4).UTC(), unnamed.mark("mark", time.Time{}))
	assert.Equal(f, f.after(5).UTC(), f.mark("a.b $c", time.Time{}))
}

func markPrecision(f *fixture) {
	at := f.after(1)
	f.mark("mark", at.Add(time.Millisecond-1))
	assert.Equal(f, at.UTC(), f.mark("mark", at.Add(time.Millisecond)))
	assert.Equal(f, at.Add(time.Millisecond).UTC(), f.mark("mark", time.Time{}))
	zone := time.FixedZone("east", 3600)
	assert.Equal(f, at.Add(time.Millisecond).UTC(), f.mark("mark", f.after(2).In(zone)))
	assert.Equal(f, f.after(2).UTC(), f.mark("mark", time.Time{}))
}

func markOfNoQueue(f *fixture) {
	f.mark("mark", f.after(1))
	assert.Empty(f, f.queues())
	f.insert(spec{id: "job"})
	f.in("other").insert(spec{id: "job"})
	f.mark("mark", f.after(2))
	assert.Len(f, f.queues(), 2)
	assert.Equal(f, f.after(2).UTC(), f.mark("mark", time.Time{}))
}

func shareMark(f *fixture) {
	other := f.share()
	f.mark("mark", f.after(1))
	assert.Equal(f, f.after(1).UTC(), other.mark("mark", f.after(3)))
	assert.Equal(f, f.after(3).UTC(), f.mark("mark", f.after(2)))
	assert.Equal(f, f.after(3).UTC(), f.mark("mark", time.Time{}))
}

// raceMark raises a mark to several times at once. Each value that the mark had must be
// replaced by a later one.
func raceMark(f *fixture) {
	var latest time.Time
	for round := range rounds {
		var racing []func() error
		times, lasts := make([]time.Time, 4), make([]time.Time, 4)
		for i := range times {
			times[i] = f.after(float64(4*round + i + 1)).UTC()
			racing = append(racing, func() (err error) {
				lasts[i], err = f.driver.Mark(f.ctx, f.queue, "mark", times[i])
				return err
			})
		}
		for _, err := range f.together(racing...) {
			require.NoError(f, err)
		}
		had := append([]time.Time{latest}, times...)
		replaced := map[time.Time]bool{}
		for i, last := range lasts {
			require.Contains(f, had, last, "the value of the mark before it was raised to %s", times[i])
			if last.Before(times[i]) {
				require.False(f, replaced[last], "the mark was %s once", last)
				replaced[last] = true
			}
		}
		require.True(f, replaced[latest], "the mark was raised")
		latest = times[len(times)-1]
		require.Equal(f, latest, f.mark("mark", time.Time{}), "the latest of all stays")
	}
}
