package drivertest

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// unchanged returns a function that requires that nothing has changed since the call.
func (f *fixture) unchanged() func() {
	f.Helper()
	queues, before, notes := f.queues(), f.find(driver.Query{}), f.kept(noteKind)
	return func() {
		f.Helper()
		require.Equal(f, queues, f.queues())
		after := f.find(driver.Query{})
		require.Len(f, after, len(before))
		for i := range after {
			f.same(before[i], after[i])
		}
		f.sameNotes(notes, f.kept(noteKind))
	}
}

// same requires that two records have the same content.
func (f *fixture) same(want, got *driver.Record) {
	f.Helper()
	wanted, err := want.Encode(amboy.JSON)
	require.NoError(f, err)
	found, err := got.Encode(amboy.JSON)
	require.NoError(f, err)
	if !bytes.Equal(wanted, found) { // mostly they are
		require.JSONEq(f, string(wanted), string(found))
	}
}

// consistent requires that the driver's answers agree with each other.
func (f *fixture) consistent() {
	f.Helper()
	if !f.unchecked {
		f.agree(f.find(driver.Query{}))
	}
}

// agree requires that Stats counts all records and the removed ones, that ended records
// hold no scope, that no more jobs of a queue hold a scope than may, and that no two
// unfinished jobs have the same unique key.
func (f *fixture) agree(all []*driver.Record) {
	f.Helper()
	holders := map[[2]string]string{}
	shared := map[[2]string]int{}
	for _, r := range all {
		if stateOf(r).IsFinal() && r.Status.Completed {
			require.Empty(f, r.Scopes, "record %q has ended, and holds scopes", r.Name)
		}
		if !r.Status.Completed && r.UniqueKey != "" && r.UniqueUntil != amboy.UniqueUntilStarted {
			f.holdsAlone(holders, r, "unique key "+r.UniqueKey)
		}
		if hasExpired(r) {
			continue // claimed to be ended, without scopes
		}
		for _, scope := range r.Scopes {
			if limit := limitOf(scope); limit > 1 {
				shared[[2]string{r.Group, scope}]++
				require.LessOrEqual(f, shared[[2]string{r.Group, scope}], limit, "in queue %q, records hold scope %q", r.Group, scope)
				continue
			}
			f.holdsAlone(holders, r, "scope "+scope)
		}
	}
	f.counts(all)
}

// counts requires that Stats counts all records and the removed ones. If both differ because
// the driver has changed records in the background since they were found, it finds them again.
func (f *fixture) counts(all []*driver.Record) {
	f.Helper()
	want := f.wantedStats(all)
	for queue := range want {
		got, err := f.driver.Stats(f.ctx, queue)
		require.NoError(f, err)
		if want[queue].String() == got.String() {
			continue
		}
		again := f.find(driver.Query{})
		require.NotEqual(f, want, f.wantedStats(again), "Stats must count what Find finds in queue %q, and not %v", queue, got)
		f.counts(again)
		return
	}
}

// wantedStats returns the stats of each queue that has some records.
func (f *fixture) wantedStats(all []*driver.Record) map[string]amboy.QueueStats {
	want := map[string]amboy.QueueStats{f.queue: {}}
	for queue, removed := range f.removed {
		want[queue] = amboy.QueueStats{Total: removed, Completed: removed}
	}
	for _, r := range all {
		want[r.Group] = counted(want[r.Group], r)
	}
	return want
}

// holdsAlone requires that no other record of the queue holds the same thing.
func (f *fixture) holdsAlone(holders map[[2]string]string, r *driver.Record, thing string) {
	f.Helper()
	key := [2]string{r.Group, thing}
	require.Empty(f, holders[key], "in queue %q, record %q has %s, and so does record %q", r.Group, holders[key], thing, r.Name)
	holders[key] = r.Name
}

func countByQueue(records []*driver.Record) map[string]int {
	counts := map[string]int{}
	for _, r := range records {
		counts[r.Group]++
	}
	return counts
}

// hasExpired reports whether a record was claimed after its dispatch-by time.
func hasExpired(r *driver.Record) bool {
	return r.Status.InProgress && !r.TimeInfo.DispatchBy.IsZero() && r.TimeInfo.DispatchBy.Before(r.TimeInfo.Start)
}

// counted returns the stats plus a record that Find returned.
func counted(stats amboy.QueueStats, r *driver.Record) amboy.QueueStats {
	stats.Total++
	switch {
	case r.Status.Completed:
		stats.Completed++
		if r.RetryInfo.ShouldRetry() {
			stats.Retrying++
		}
	case r.Status.InProgress:
		stats.Running++
	default:
		stats.Pending++
		if r.Status.Hold == amboy.HoldBlocked {
			stats.Blocked++
		}
	}
	return stats
}
