package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var interruptionRules = []rule{
	{"recovering a lease counts and lists an interruption", interruptCounts},
	{"only the latest interruptions are listed", interruptBounds},
	{"a hand-back and a run that ends are no interruptions", interruptNothingElse},
	{"the next attempt and a restarted job have no interruptions", interruptStartsAnew},
	{"the action Unpark forgives the interruptions, and keeps the list", interruptForgiven},
}

// interrupted inserts a job and interrupts it the given number of times.
func (f *fixture) interrupted(s spec, times int) *driver.Record {
	f.Helper()
	f.insert(s)
	for range times {
		f.claimOne(s.id)
		require.Equal(f, 1, f.recoverEnded())
	}
	return f.get(s.id)
}

func interruptCounts(f *fixture) {
	f.insert(spec{id: "job"})
	claimed := f.claimOne("job")
	assert.Nil(f, claimed.Status.Interruptions)
	require.Equal(f, 1, f.recoverEnded())
	for _, r := range []*driver.Record{f.get("job"), f.claimOne("job")} {
		require.NotNil(f, r.Status.Interruptions)
		assert.Equal(f, 1, r.Status.Interruptions.Count)
		require.Len(f, r.Status.Interruptions.Latest, 1)
		one := r.Status.Interruptions.Latest[0]
		assert.Equal(f, owner, one.Owner)
		assert.WithinDuration(f, claimed.TimeInfo.Start, one.Start, time.Millisecond)
		assert.False(f, one.At.IsZero())
		assert.False(f, one.LeaseEnded.IsZero())
	}
	require.Equal(f, 1, f.recoverEnded())
	assert.Equal(f, 2, f.get("job").Status.Interruptions.Count)
}

func interruptBounds(f *fixture) {
	times := amboy.MaxListedInterruptions + 2
	r := f.interrupted(spec{id: "job"}, times)
	assert.Equal(f, times, r.Status.Interruptions.Count)
	assert.Len(f, r.Status.Interruptions.Latest, amboy.MaxListedInterruptions)
}

func interruptNothingElse(f *fixture) {
	f.interrupted(spec{id: "job"}, 1)
	f.release(driver.HandBack{Lease: driver.LeaseOf(f.claimOne("job"))})
	assert.Equal(f, 1, f.get("job").Status.Interruptions.Count)
	f.end(f.claimOne("job"), amboy.StateFailed)
	assert.Equal(f, 1, f.get("job").Status.Interruptions.Count, "an ended job shows them")
	assert.Zero(f, f.recoverEnded())
}

func interruptStartsAnew(f *fixture) {
	f.interrupted(spec{id: "failed"}, 1)
	f.end(f.claimOne("failed"), amboy.StateFailed)
	f.restart("failed")
	assert.Nil(f, f.get("failed").Status.Interruptions)
}

func interruptForgiven(f *fixture) {
	f.interrupted(spec{id: "job"}, 2)
	f.park("job")
	assert.Equal(f, 2, f.get("job").Status.Interruptions.Count)
	f.unpark("job")
	r := f.claimOne("job")
	assert.Zero(f, r.Status.Interruptions.Total())
	require.NotNil(f, r.Status.Interruptions)
	assert.Len(f, r.Status.Interruptions.Latest, 2)
	require.Equal(f, 1, f.recoverEnded())
	assert.Equal(f, 1, f.get("job").Status.Interruptions.Count)
}
