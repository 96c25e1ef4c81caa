//go:build unix

package benchmarks

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// besideLimits are limits that let one job of a queue run.
var besideLimits = map[string]func(b *testing.B, q amboy.Queue, tasks []amboy.Job){
	"key": func(_ *testing.B, _ amboy.Queue, tasks []amboy.Job) {
		for _, t := range tasks {
			t.SetScopes([]string{amboy.LimitScope("stripe", 1)})
		}
	},
	"queue": func(b *testing.B, q amboy.Queue, _ []amboy.Job) {
		require.NoError(b, amboy.SetMaxRunning(b.Context(), q, 1))
	},
	"type": func(b *testing.B, q amboy.Queue, tasks []amboy.Job) {
		require.NoError(b, amboy.LimitType(b.Context(), q, tasks[0].Type().Name, amboy.TypeLimit{MaxRunning: 1}))
	},
	"rate": func(b *testing.B, q amboy.Queue, _ []amboy.Job) {
		require.NoError(b, amboy.SetRate(b.Context(), q, &amboy.Rate{PerSecond: amboy.MinRate}))
	},
	"type-rate": func(b *testing.B, q amboy.Queue, tasks []amboy.Job) {
		require.NoError(b, amboy.LimitType(b.Context(), q, tasks[0].Type().Name, amboy.TypeLimit{Rate: &amboy.Rate{PerSecond: amboy.MinRate}}))
	},
}

// BenchmarkLimitBeside measures how many jobs of 999 tenants a group accepts and runs per second,
// while 1,000 jobs of another tenant wait for a limit, and the ratio to the rate if none wait. In
// both, one worker runs the job that the limit lets run.
func BenchmarkLimitBeside(b *testing.B) {
	for name, open := range storesFor("") {
		for kind, limit := range besideLimits {
			b.Run(name+"/"+kind, func(b *testing.B) { drainBesideLimit(b, open, limit) })
		}
	}
}

// drainBesideLimit measures the others beside a limit on a store.
func drainBesideLimit(b *testing.B, open func(*testing.B) driver.Driver, limit func(*testing.B, amboy.Queue, []amboy.Job)) {
	const others, each = 999, 5
	holding := make(chan struct{}, 2)
	release := make(chan struct{})
	hold := func(*storedTask) {
		holding <- struct{}{}
		<-release
	}
	runStored.Store(&hold)
	groups := map[bool]amboy.QueueGroup{}
	for _, limited := range []bool{false, true} {
		group := openBeside(b, open(b), others)
		groups[limited] = group
		q, tasks := tenant(b, group, "busy"), newStoredTasks(1)
		if limited {
			tasks = newStoredTasks(1001)
			limit(b, q, tasks)
		}
		require.NoError(b, q.PutMany(b.Context(), tasks))
		<-holding
	}
	defer func() {
		none := func(*storedTask) {}
		runStored.Store(&none)
		close(release)
		for _, group := range groups {
			require.NoError(b, group.Close(b.Context()))
		}
	}()
	took := map[bool]*samples{false: {}, true: {}}
	for first := false; b.Loop(); first = !first {
		for _, limited := range []bool{first, !first} {
			runtime.GC()
			*took[limited] = append(*took[limited], drainTenants(b, groups[limited], others, each))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[true].rate(others*each), "jobs/s")
	b.ReportMetric(took[true].rate(others*each)/took[false].rate(others*each), "of-no-limit")
}

// drainTenants puts jobs into the queues of tenants with the names 0 to n-1, and returns how long it
// takes to put and run them.
func drainTenants(b *testing.B, group amboy.QueueGroup, n, each int) time.Duration {
	running := newCountdown(n * each)
	run := func(*storedTask) { running.run() }
	runStored.Store(&run)
	begin := time.Now()
	for i := range n {
		require.NoError(b, tenant(b, group, strconv.Itoa(i)).PutMany(b.Context(), newStoredTasks(each)))
	}
	<-running.done
	return time.Since(begin)
}
