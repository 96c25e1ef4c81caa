package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// queueName is the queue that most tests use.
const queueName = "queue"

// request returns a claim of records that may run now.
func request(limit int) driver.ClaimRequest {
	return driver.ClaimRequest{
		Owner:     "owner",
		Queues:    []driver.Demand{{Queue: queueName, Limit: limit}},
		Limit:     limit,
		Now:       time.Now(),
		LeaseTime: time.Minute,
	}
}

// newRecord returns the record of a job that runs a command.
func newRecord(tb testing.TB, id string) *driver.Record {
	tb.Helper()
	j := job.NewShellJob("echo", "")
	j.SetID(id)
	j.UpdateTimeInfo(amboy.JobTimeInfo{Created: time.Now()})
	r, err := registry.MakeJobInterchange(j, amboy.BSON2)
	require.NoError(tb, err)
	r.Group = queueName
	r.Name = driver.RecordName(queueName, id, r.RetryInfo)
	return r
}

// BenchmarkLife inserts records 1,000 at a time, and claims and completes them 8
// at a time.
func BenchmarkLife(b *testing.B) {
	const records, workers = 20_000, 8
	for _, synchronous := range []string{sqlite.SynchronousNormal, sqlite.SynchronousFull} {
		b.Run(synchronous, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				all := make([]*driver.Record, records)
				for i := range all {
					all[i] = newRecord(b, fmt.Sprint("job-", i))
				}
				d := open(b, sqlite.Options{Path: newPath(b), Synchronous: synchronous})
				b.StartTimer()
				insertAll(b, d, all)
				completeAll(b, d, len(all), workers)
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func insertAll(b *testing.B, d *sqlite.Driver, all []*driver.Record) {
	b.Helper()
	for len(all) > 0 {
		n := min(len(all), 1000)
		errs, err := d.Insert(b.Context(), all[:n])
		require.NoError(b, err)
		for _, err := range errs {
			require.NoError(b, err)
		}
		all = all[n:]
	}
}

// completeAll claims one record per worker at a time, and completes them together, as a
// queue does.
func completeAll(b *testing.B, d *sqlite.Driver, n, workers int) {
	b.Helper()
	for n > 0 {
		claimed, err := d.Claim(b.Context(), request(workers))
		require.NoError(b, err)
		require.NotEmpty(b, claimed.Records)
		completions := make([]driver.Completion, len(claimed.Records))
		for i, r := range claimed.Records {
			completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: r}
			r.Status.Completed, r.Status.InProgress = true, false
			r.TimeInfo.End = time.Now()
			r.ForgetAt = r.TimeInfo.End.Add(time.Hour)
		}
		errs, err := d.Complete(b.Context(), completions)
		require.NoError(b, errors.Join(append(errs, err)...))
		n -= len(claimed.Records)
	}
}

// BenchmarkBacklog inserts, claims and completes 1,000 records in a file that contains many
// others, scheduled for next week or finished: 10,000 and 20,000 of each. AMBOY_BACKLOG sets
// the larger number, for instance to 1000000, which takes minutes to insert.
func BenchmarkBacklog(b *testing.B) {
	const records, workers = 1000, 8
	largest := 20_000
	if text := os.Getenv("AMBOY_BACKLOG"); text != "" {
		var err error
		largest, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	path, filled := newPath(b), 0
	d := open(b, sqlite.Options{Path: path})
	for _, backlog := range []int{0, largest / 10, largest} {
		fill(b, d, filled, backlog)
		filled = backlog
		b.Run(fmt.Sprint(backlog), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				all := make([]*driver.Record, records)
				for i := range all {
					all[i] = newRecord(b, fmt.Sprint("job-", backlog, "-", b.N, "-", n, "-", i))
				}
				b.StartTimer()
				insertAll(b, d, all)
				completeAll(b, d, len(all), workers)
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// fill adds scheduled and finished records, numbered from one number up to another.
func fill(b *testing.B, d *sqlite.Driver, from, to int) {
	b.Helper()
	const atOnce = 1000
	for ; from < to; from += atOnce {
		var all []*driver.Record
		for i := from; i < min(from+atOnce, to); i++ {
			late := newRecord(b, fmt.Sprint("late-", i))
			late.TimeInfo.WaitUntil = time.Now().Add(7 * 24 * time.Hour)
			all = append(all, late, newRecord(b, fmt.Sprint("done-", i)))
		}
		insertAll(b, d, all)
		completeAll(b, d, len(all)/2, atOnce)
	}
}

// BenchmarkTenants inserts, claims and completes one record in each of many queues, with
// claims from all queues.
func BenchmarkTenants(b *testing.B) {
	for _, queues := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(queues), func(b *testing.B) {
			d := open(b, sqlite.Options{Path: newPath(b)})
			req := request(8)
			req.Queues = nil
			for i := range queues {
				req.Queues = append(req.Queues, driver.Demand{Queue: fmt.Sprint("tenant-", i), Limit: 8})
			}
			n := 0
			for ; b.Loop(); n++ {
				r := newRecord(b, fmt.Sprint("job-", n))
				r.Group = fmt.Sprint("tenant-", n%queues)
				r.Name = driver.RecordName(r.Group, r.JobID(), r.RetryInfo)
				insertAll(b, d, []*driver.Record{r})
				req.Now = time.Now()
				claimed, err := d.Claim(b.Context(), req)
				require.NoError(b, err)
				require.Len(b, claimed.Records, 1)
				completion := driver.Completion{Lease: driver.LeaseOf(claimed.Records[0]), Record: claimed.Records[0]}
				completion.Record.Status.Completed = true
				errs, err := d.Complete(b.Context(), []driver.Completion{completion})
				require.NoError(b, errors.Join(append(errs, err)...))
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkFanIn ends the many dependencies of one job, one by one.
func BenchmarkFanIn(b *testing.B) {
	for _, edges := range []int{1000, 2000, 4000, 8000, 16_000} {
		b.Run(fmt.Sprint(edges), func(b *testing.B) {
			var inserting time.Duration
			for b.Loop() {
				b.StopTimer()
				d := open(b, sqlite.Options{Path: newPath(b)})
				begun := time.Now()
				insertFanIn(b, d, edges, "edge-")
				inserting += time.Since(begun)
				claimed, err := d.Claim(b.Context(), request(edges))
				require.NoError(b, err)
				b.StartTimer()
				endEach(b, d, claimed.Records, "")
			}
			all := float64(edges) * float64(b.N)
			b.ReportMetric(b.Elapsed().Seconds()*1e6/all, "us/edge")
			b.ReportMetric(inserting.Seconds()*1e6/all, "us/insert")
		})
	}
}

// BenchmarkIdle claims from 1,000 queues without work.
func BenchmarkIdle(b *testing.B) {
	d := open(b, sqlite.Options{Path: newPath(b)})
	req := request(8)
	req.Queues = nil
	var all []*driver.Record
	for i := range 1000 {
		r := newRecord(b, "job")
		r.Group = fmt.Sprint("tenant-", i)
		r.Name = driver.RecordName(r.Group, "job", r.RetryInfo)
		r.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
		all = append(all, r)
		req.Queues = append(req.Queues, driver.Demand{Queue: r.Group, Limit: 8})
	}
	insertAll(b, d, all)
	for b.Loop() {
		req.Now = time.Now()
		claimed, err := d.Claim(b.Context(), req)
		require.NoError(b, err)
		require.Empty(b, claimed.Records)
	}
}
