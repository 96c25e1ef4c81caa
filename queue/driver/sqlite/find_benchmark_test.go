package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// The contents of the file that BenchmarkFind queries.
const (
	manyFinished = 1_000_000
	manyPending  = 100_000
	manyQueues   = 20
	manyTypes    = 10
	manyDays     = 7 // the time over which the jobs were put
)

// manyRecords generates the records of the file, in their order.
type manyRecords struct {
	template driver.Record
	random   *rand.Rand
	now      time.Time
}

func newManyRecords(b *testing.B) *manyRecords {
	b.Helper()
	return &manyRecords{template: *newRecord(b, "template"), random: rand.New(rand.NewPCG(1, 2)), now: time.Now()}
}

// record generates a record. Half of the last records are pending, and some of the first.
func (m *manyRecords) record(i int) (r *driver.Record, pending bool) {
	const all = manyFinished + manyPending
	it := m.template
	r = &it
	id := fmt.Sprintf("job-%07d", i)
	r.Group = fmt.Sprint("tenant-", m.random.IntN(manyQueues))
	r.Name = driver.RecordName(r.Group, id, amboy.JobRetryInfo{})
	r.Type = fmt.Sprint("type-", min(m.random.IntN(2*manyTypes), manyTypes-1))
	r.TimeInfo.Created = m.now.Add(-time.Duration(float64(all-i) / all * manyDays * 24 * float64(time.Hour)))
	if m.random.IntN(10) == 0 {
		r.Tags = []string{"common", fmt.Sprint("tag-", m.random.IntN(100))}
	}
	if i%(all/20) == 777 {
		r.Type, r.Tags = "rare", []string{"rare", "common"}
	}
	if (i >= all-2*manyPending && m.random.IntN(2) == 0) || (i < manyFinished/2 && i%100 == 0) {
		switch m.random.IntN(10) {
		case 0, 1:
			r.TimeInfo.WaitUntil = m.now.Add(time.Hour + time.Duration(m.random.IntN(1000))*time.Minute)
		case 2:
			r.RequiredScopes = []string{"scope"}
		}
		r.Priority = m.random.IntN(3)
		return r, true
	}
	r.Status.Completed = true
	r.TimeInfo.Start = r.TimeInfo.Created.Add(time.Second)
	r.TimeInfo.End = r.TimeInfo.Created.Add(2 * time.Second)
	r.ForgetAt = m.now.Add(24 * time.Hour)
	switch n := m.random.IntN(1000); {
	case n < 30:
		r.Status.ErrorCount = 1
		r.Status.Errors = []string{fmt.Sprintf("reading page %d of table %d: %s", i, n, strings.Repeat("connection reset ", 10))}
		if i%1000 == 7 {
			r.Status.Errors[0] = "writing: disk is full"
		}
	case n < 40:
		r.Status.Outcome = amboy.OutcomeCanceled
	case n < 42:
		r.Status.Outcome = amboy.OutcomeExpired
	}
	return r, false
}

// openNamed opens the file that an environment variable names, or else a new one.
func openNamed(b *testing.B, variable string) (d *sqlite.Driver, path string, isNew bool) {
	b.Helper()
	path = os.Getenv(variable)
	if path == "" {
		path = newPath(b)
	}
	_, err := os.Stat(path)
	return open(b, sqlite.Options{Path: path, KeepFinished: 2 * manyFinished}), path, err != nil
}

// openMany opens a file with many records. It creates the file, which takes a minute, unless
// AMBOY_MANY is the path of an existing one. A file at that path is kept.
func openMany(b *testing.B) *sqlite.Driver {
	b.Helper()
	d, path, isNew := openNamed(b, "AMBOY_MANY")
	if !isNew {
		return d
	}
	begun, many := time.Now(), newManyRecords(b)
	var pending, ended []*driver.Record
	flush := func() {
		b.Helper()
		insertAll(b, d, pending)
		require.NoError(b, sqlite.InsertEnded(d, ended))
		pending, ended = nil, nil
	}
	for i := range manyFinished + manyPending {
		r, isPending := many.record(i)
		if isPending != (len(pending) > 0) || len(ended) == 10_000 {
			flush() // to keep the order of the records
		}
		if isPending {
			pending = append(pending, r)
		} else {
			ended = append(ended, r)
		}
	}
	flush()
	b.Logf("made %s in %s", path, time.Since(begun).Round(time.Second))
	return d
}

// runJobs inserts, claims and completes jobs, 8 at a time, until stop is called.
func runJobs(b *testing.B, d *sqlite.Driver) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	template := *newRecord(b, "template")
	var running sync.WaitGroup
	running.Go(func() {
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			if err := runSome(ctx, d, template, n); err != nil && ctx.Err() == nil {
				b.Errorf("running jobs: %v", err)
				return
			}
			<-pace.C
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func runSome(ctx context.Context, d *sqlite.Driver, template driver.Record, n int) error {
	var all []*driver.Record
	for i := range 8 {
		r := template
		id := fmt.Sprintf("run-%d-%d-%d", time.Now().UnixNano(), n, i)
		r.Group, r.Type, r.Name = queueName, "type-9", driver.RecordName(queueName, id, amboy.JobRetryInfo{})
		r.TimeInfo.Created = time.Now()
		all = append(all, &r)
	}
	errs, err := d.Insert(ctx, all)
	err = errors.Join(append(errs, err)...)
	if err != nil {
		return err
	}
	claimed, err := d.Claim(ctx, request(8))
	if err != nil {
		return err
	}
	var completions []driver.Completion
	for _, r := range claimed.Records {
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
		r.Status.Completed, r.Status.InProgress = true, false
		r.TimeInfo.End = time.Now()
		r.ForgetAt = r.TimeInfo.End.Add(time.Hour)
	}
	errs, err = d.Complete(ctx, completions)
	return errors.Join(append(errs, err)...)
}

// manyQueries returns the benchmarked queries.
func manyQueries() (names []string, queries map[string]driver.Query) {
	now := time.Now()
	queries = map[string]driver.Query{
		"all":                        {},
		"queue":                      {Queues: []string{"tenant-3"}},
		"queue and pending":          {Queues: []string{"tenant-3"}, States: []amboy.JobState{amboy.StatePending}},
		"queue and failed":           {Queues: []string{"tenant-3"}, States: []amboy.JobState{amboy.StateFailed}},
		"queue and succeeded":        {Queues: []string{"tenant-3"}, States: []amboy.JobState{amboy.StateSucceeded}},
		"pending and failed":         {States: []amboy.JobState{amboy.StatePending, amboy.StateFailed}},
		"common type":                {Types: []string{"type-9"}},
		"rare type":                  {Types: []string{"rare"}},
		"no type":                    {Types: []string{"nobody"}},
		"common type and pending":    {Types: []string{"type-9"}, States: []amboy.JobState{amboy.StatePending}},
		"common tag":                 {Tags: []string{"common"}},
		"rare tag":                   {Tags: []string{"rare"}},
		"two tags":                   {Tags: []string{"common", "rare"}},
		"queue and tag":              {Queues: []string{"tenant-3"}, Tags: []string{"tag-7"}},
		"ID pattern, one":            {ID: "*0500123*"},
		"ID pattern, prefix":         {ID: "job-05001*"},
		"ID pattern, prefix, queue":  {Queues: []string{"tenant-3"}, ID: "job-05001*"},
		"ID pattern, none":           {ID: "nobody*here"},
		"job IDs":                    {JobIDs: []string{"job-0000001", "job-0500123", "job-1000000"}},
		"error, few of failed":       {Error: "disk is full", States: []amboy.JobState{amboy.StateFailed}},
		"error, few":                 {Error: "disk is full"},
		"error, none":                {Error: "nothing of the kind"},
		"ID part, one":               {IDPart: "0500123"},
		"ID part, many":              {IDPart: "JOB-05"},
		"ID part, none":              {IDPart: "nobody"},
		"tag part":                   {TagPart: "RARE"},
		"type part":                  {TypePart: "RARE"},
		"type part, none":            {TypePart: "nobody"},
		"created last hour":          {Created: driver.TimeRange{From: now.Add(-time.Hour)}},
		"ended last hour":            {Ended: driver.TimeRange{From: now.Add(-time.Hour)}},
		"failed, ended last hour":    {Ended: driver.TimeRange{From: now.Add(-time.Hour)}, States: []amboy.JobState{amboy.StateFailed}},
		"succeeded, ended last hour": {Ended: driver.TimeRange{From: now.Add(-time.Hour)}, States: []amboy.JobState{amboy.StateSucceeded}},
		"scope":                      {Scope: "scope"},
		"holding":                    {Holding: true},
		"due next hour":              {Due: driver.TimeRange{From: now, To: now.Add(2 * time.Hour)}},
	}
	for _, state := range amboy.JobStates() {
		queries[string(state)] = driver.Query{States: []amboy.JobState{state}}
	}
	for name, q := range queries {
		q.Latest = true
		queries[name] = q
		names = append(names, name)
	}
	slices.Sort(names)
	return names, queries
}

// BenchmarkFind measures the reads of an operator on 1,000,000 finished and 100,000 pending
// records, alone and while jobs run. It reports how many of at most 50 records the first
// page contains.
func BenchmarkFind(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes minutes")
	}
	d := openMany(b)
	for _, load := range []string{"alone", "while jobs run"} {
		b.Run(load, func(b *testing.B) {
			if load != "alone" {
				defer runJobs(b, d)()
			}
			findMany(b, d)
		})
	}
}

func findMany(b *testing.B, d *sqlite.Driver) {
	b.Helper()
	measure(b, "Stats", func() (int, error) {
		_, err := d.Stats(b.Context(), "tenant-3")
		return 0, err
	})
	measure(b, "Queues", func() (int, error) {
		infos, err := d.Queues(b.Context(), driver.QueueRequest{})
		return len(infos), err
	})
	names, queries := manyQueries()
	for _, name := range names {
		for _, newest := range []bool{false, true} {
			order := "oldest"
			if newest {
				order = "newest"
			}
			measure(b, "Find/"+name+"/"+order, func() (int, error) {
				page, err := d.Find(b.Context(), queries[name], driver.PageRequest{Limit: 50, Newest: newest})
				return len(page.Records), err
			})
		}
		measure(b, "Count/"+name, func() (int, error) { return d.Count(b.Context(), queries[name], 10_000) })
	}
}

// measure reports how long a read takes, and how many records it finds.
func measure(b *testing.B, name string, read func() (int, error)) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		var times []time.Duration
		found := 0
		for b.Loop() {
			begun := time.Now()
			n, err := read()
			times = append(times, time.Since(begun))
			require.NoError(b, err)
			found = n
		}
		slices.Sort(times)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1e3, "p50-ms")
		b.ReportMetric(float64(times[len(times)*95/100].Microseconds())/1e3, "p95-ms")
		b.ReportMetric(float64(found), "found")
	})
}
