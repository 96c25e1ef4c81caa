package drivertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

func (h *history) compareClaimed(jobs []*modelJob) {
	h.Helper()
	for _, j := range jobs {
		require.Equal(h, j.lease, driver.LeaseOf(j.record))
		require.ElementsMatch(h, j.failed, j.record.Dependency.Failed, "the failed edges of job %q", j.id)
		require.True(h, j.record.Status.InProgress)
		require.Equal(h, j.priority, j.record.Priority)
	}
}

// compareNext compares the Next of a claim, got, with the next times of the claimed queues and
// of all queues.
func (h *history) compareNext(req driver.ClaimRequest, got time.Time) {
	h.Helper()
	earliest := func(models ...*model) (first time.Time) {
		for _, m := range models {
			next := m.next(h.clock)
			if !next.IsZero() && (first.IsZero() || next.Before(first)) {
				first = next
			}
		}
		return first
	}
	var asked, all []*model
	for _, demand := range req.Queues {
		if !h.models[demand.Queue].control.Paused {
			asked = append(asked, h.models[demand.Queue])
		}
	}
	for _, queue := range historyQueues {
		all = append(all, h.models[queue])
	}
	// A time may have come in a queue that was not asked for.
	unknown := slices.ContainsFunc(all, func(m *model) bool {
		return !slices.Contains(asked, m) && slices.ContainsFunc(m.in(pending), func(j *modelJob) bool {
			return j.isPast(h.clock) || (!j.waitUntil.IsZero() && !j.waitUntil.After(h.clock))
		})
	})
	if earliest(all...).IsZero() && !unknown {
		require.Zero(h, got, "no time to wait for")
	}
	if !got.IsZero() && !unknown {
		require.True(h, got.After(h.clock), "next is %s, which is not after %s", got, h.clock)
	}
	want := earliest(asked...)
	if want.IsZero() || isInTime(got, want) {
		return
	}
	require.Greater(h, len(h.drivers()), 1, "next is %s, and must not be after %s", got, want)
	// The notification of the driver that has written the record may be on its way.
	req.Limit = 0
	for _, d := range h.drivers() {
		for claimed := (driver.Claimed{}); !isInTime(claimed.Next, want); {
			var err error
			claimed, err = d.Claim(h.ctx, req)
			require.NoError(h, err, "the last next was %s, and must not be after %s", claimed.Next, want)
		}
	}
}

// isInTime reports whether the Next of a claim is not later than it must be.
func isInTime(got, want time.Time) bool {
	return !got.IsZero() && !got.After(want.Add(time.Millisecond))
}

// compare compares every record of the driver with the model.
func (h *history) compare() {
	h.Helper()
	records := h.find(driver.Query{})
	h.agree(records)
	byQueue := map[string][]*driver.Record{}
	for _, r := range records {
		byQueue[r.Group] = append(byQueue[r.Group], r)
	}
	for _, queue := range historyQueues {
		h.compareQueue(queue, byQueue[queue])
	}
	unfinished, err := h.driver.Unfinished(h.ctx)
	require.NoError(h, err)
	require.Equal(h, h.unfinished(), unfinished, "the queues with records that have not ended for good")
	by := fmt.Sprint("owner", h.random.IntN(2))
	require.ElementsMatch(h, h.canceling(by), h.toCancel(by), "the leases that %q must cancel", by)
	if r, ok := pick(h.random, records); ok && !h.models[r.Group].headless[r.JobID()] && !isReplaced(records, r) {
		got, err := h.driver.Get(h.ctx, r.Group, r.JobID())
		require.NoError(h, err)
		h.same(r, got)
	}
}

// isReplaced reports whether a later attempt exists.
func isReplaced(records []*driver.Record, r *driver.Record) bool {
	return slices.ContainsFunc(records, func(other *driver.Record) bool {
		return other.Group == r.Group && other.JobID() == r.JobID() && other.RetryInfo.CurrentAttempt > r.RetryInfo.CurrentAttempt
	})
}

// unfinished returns the sorted queues with an attempt that has not ended for good.
func (h *history) unfinished() []string {
	var names []string
	for queue, m := range h.models {
		if slices.ContainsFunc(m.attempts, func(j *modelJob) bool { return j.stage != finished }) {
			names = append(names, queue)
		}
	}
	slices.Sort(names)
	return names
}

// canceling returns the leases that an owner must cancel.
func (h *history) canceling(by string) []driver.Lease {
	var leases []driver.Lease
	for _, queue := range historyQueues {
		for _, j := range h.models[queue].in(running) {
			if j.canceling && j.lease.Owner == by {
				leases = append(leases, j.lease)
			}
		}
	}
	return leases
}

func (h *history) compareQueue(queue string, records []*driver.Record) {
	h.Helper()
	m := h.models[queue]
	require.Len(h, records, len(m.attempts))
	found := map[string]*driver.Record{}
	var order, want []string
	for _, r := range records {
		found[r.Name] = r
		order = append(order, r.Name)
	}
	for _, j := range m.attempts {
		require.Contains(h, found, j.record.Name, "queue %q", queue)
		h.compareRecord(m, j, found[j.record.Name])
		want = append(want, j.record.Name)
	}
	// The position of a restarted attempt is left to the driver.
	isRestarted := func(name string) bool {
		return slices.ContainsFunc(m.attempts, func(j *modelJob) bool { return j.restarted && j.record.Name == name })
	}
	require.Equal(h, slices.DeleteFunc(want, isRestarted), slices.DeleteFunc(order, isRestarted), "the order of arrival in queue %q", queue)
}

func (h *history) compareRecord(m *model, j *modelJob, r *driver.Record) {
	h.Helper()
	require.Contains(h, m.states(j, h.clock), stateOf(r), "the state of record %q, whose status is %+v", r.Name, r.Status)
	shown := driver.LeaseOf(r)
	if j.stage != running {
		shown.Stamp = j.lease.Stamp // only that of a lease is defined
	}
	require.Equal(h, j.lease, shown)
	require.Equal(h, j.canceling, r.CancelRequested, "of record %q", r.Name)
	if j.stage == finished {
		require.Equal(h, j.reason, r.Status.Reason, "the reason of record %q", r.Name)
		require.True(h, j.forgetAt.Equal(r.ForgetAt), "record %q may be forgotten at %s, not %s", r.Name, j.forgetAt, r.ForgetAt)
	}
	if m.byID[j.id] != j {
		require.Empty(h, r.Scopes, "record %q was replaced", r.Name)
		return
	}
	if j.stage != finished {
		require.Equal(h, j.priority, r.Priority, "the priority of record %q", r.Name)
	}
	if !j.expired {
		assert.ElementsMatch(h, m.held(j.id), r.Scopes, "the scopes of record %q", r.Name)
	}
	if j.progress != "" {
		require.NotNil(h, r.Progress, "record %q", r.Name)
		require.Equal(h, j.progress, r.Progress.Message)
	}
}
