package amboy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
)

type retainedJob struct {
	*testJob
	retention amboy.Retention
}

func (j retainedJob) Retention() amboy.Retention { return j.retention }

func TestRetentionFor(t *testing.T) {
	ofQueue := amboy.Retention{Succeeded: 1, Failed: 2, Canceled: 3, Expired: 4}
	assert.Equal(t, ofQueue, ofQueue.For(newJob("j")))
	assert.Equal(t, ofQueue, ofQueue.For(retainedJob{newJob("j"), amboy.Retention{Failed: -7}}))
	assert.Equal(t,
		amboy.Retention{Succeeded: amboy.KeepForever, Failed: 9, Canceled: 3, Expired: 4},
		ofQueue.For(retainedJob{newJob("j"), amboy.Retention{Succeeded: amboy.KeepForever, Failed: 9}}))
}

func TestRetentionUntil(t *testing.T) {
	end := time.Now()
	r := amboy.Retention{Succeeded: time.Hour, Failed: 2 * time.Hour, Canceled: amboy.KeepForever, Expired: 4 * time.Hour}
	assert.Equal(t, end.Add(time.Hour), r.Until(amboy.StateSucceeded, end))
	assert.Equal(t, end.Add(2*time.Hour), r.Until(amboy.StateFailed, end))
	assert.Zero(t, r.Until(amboy.StateCanceled, end))
	assert.Equal(t, end.Add(4*time.Hour), r.Until(amboy.StateExpired, end))
	assert.Equal(t, end.Add(time.Hour), r.UntilReplaced(end))
	r = amboy.Retention{Succeeded: amboy.KeepForever, Failed: amboy.KeepForever, Canceled: amboy.KeepForever, Expired: amboy.KeepForever}
	assert.Zero(t, r.UntilReplaced(end))
}

func TestWaitedAndAge(t *testing.T) {
	put := time.Now()
	at := func(minutes int) time.Time { return put.Add(time.Duration(minutes) * time.Minute) }
	for name, test := range map[string]struct {
		times       amboy.JobTimeInfo
		waited, age time.Duration // the latter after ten minutes
	}{
		"not put":    {amboy.JobTimeInfo{}, 0, 0},
		"put":        {amboy.JobTimeInfo{Created: put}, 0, 10 * time.Minute},
		"started":    {amboy.JobTimeInfo{Created: put, Start: at(3)}, 3 * time.Minute, 10 * time.Minute},
		"due":        {amboy.JobTimeInfo{Created: put, WaitUntil: at(2), Start: at(3)}, time.Minute, 8 * time.Minute},
		"due before": {amboy.JobTimeInfo{Created: put, WaitUntil: at(-2), Start: at(3)}, 3 * time.Minute, 10 * time.Minute},
		"not due":    {amboy.JobTimeInfo{Created: put, WaitUntil: at(20)}, 0, 0},
		"too soon":   {amboy.JobTimeInfo{Created: put, WaitUntil: at(20), Start: at(3)}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.waited, test.times.Waited())
			assert.Equal(t, test.age, test.times.Age(at(10)))
		})
	}
}
