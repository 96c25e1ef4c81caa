package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var progressRules = []rule{
	{"the last progress is shown", progressShown},
	{"setting progress changes nothing else", progressAlone},
	{"progress stays until the attempt is replaced", progressStays},
	{"progress is refused if the lease is lost", progressLost},
}

func (f *fixture) progress(fraction float64, message string) driver.Progress {
	return driver.Progress{Fraction: fraction, Message: message, Time: f.after(fraction)}
}

func (f *fixture) setProgress(r *driver.Record, p driver.Progress) {
	f.Helper()
	require.NoError(f, f.driver.SetProgress(f.ctx, driver.LeaseOf(r), p))
	f.consistent()
}

// showsProgress requires that Get and Find show a progress, or none if want is nil.
func (f *fixture) showsProgress(id string, want *driver.Progress) {
	f.Helper()
	found := f.find(driver.Query{Queues: []string{f.queue}, ID: id, Latest: true})
	require.Len(f, found, 1)
	for _, r := range []*driver.Record{f.get(id), found[0]} {
		if want == nil {
			require.Nil(f, r.Progress)
			continue
		}
		require.NotNil(f, r.Progress)
		require.InDelta(f, want.Fraction, r.Progress.Fraction, 1e-9)
		require.Equal(f, want.Message, r.Progress.Message)
		require.True(f, want.Time.Equal(r.Progress.Time), "the time of the progress is %s", r.Progress.Time)
	}
}

func progressShown(f *fixture) {
	f.insert(spec{id: "job"}, spec{id: "other"})
	f.showsProgress("job", nil)
	r := f.claimOne("job")
	f.showsProgress("job", nil)
	for _, p := range []driver.Progress{f.progress(0.25, "a quarter"), f.progress(0.5, ""), f.progress(0, "from the beginning"), {}} {
		f.setProgress(r, p)
		f.showsProgress("job", &p)
	}
	f.showsProgress("other", nil)
}

func progressAlone(f *fixture) {
	f.insert(spec{id: "job", scopes: []string{"s"}})
	r := f.claimOne("job")
	want := f.get("job")
	p := f.progress(0.5, "half")
	f.setProgress(r, p)
	want.Progress = &p
	f.same(want, f.get("job"))
}

func progressStays(f *fixture) {
	f.insert(spec{id: "job", retryable: true})
	r := f.claimOne("job")
	p := f.progress(0.5, "half")
	f.setProgress(r, p)
	assert.False(f, f.tryExtend(driver.LeaseOf(r)))
	require.NoError(f, f.driver.Save(f.ctx, r))
	f.showsProgress("job", &p)
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	f.showsProgress("job", &p)
	r = f.claimOne("job")
	f.showsProgress("job", &p)
	e := ended(r, amboy.StateRetrying)
	e.Progress = nil // the completing process does not have to know the progress
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	f.showsProgress("job", &p)
	f.retry(f.get("job"))
	f.showsProgress("job", nil)
}

func progressLost(f *fixture) {
	f.insert(spec{id: "job"})
	set := func(l driver.Lease) error { return f.driver.SetProgress(f.ctx, l, f.progress(1, "done")) }
	pendingJob := f.get("job")
	f.lost(set(driver.LeaseOf(pendingJob)))
	f.lost(set(driver.Lease{Queue: f.queue, Name: "unknown", Owner: owner, Count: 1}))
	stale := f.claimOne("job")
	require.Equal(f, 1, f.recoverEnded())
	f.lost(set(driver.LeaseOf(stale)))
	r := f.claimOne("job")
	f.lost(set(driver.LeaseOf(stale)))
	f.showsProgress("job", nil)
	f.end(r, amboy.StateSucceeded)
	f.lost(set(driver.LeaseOf(r)))
	f.showsProgress("job", nil)
}
