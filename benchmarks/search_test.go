//go:build unix

package benchmarks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

var (
	jobsSearched = flag.Int("jobs-searched", 20_000, "the number of jobs of BenchmarkSearch")
	searchedFile = flag.String("searched-file", "", "the SQLite file of BenchmarkSearch, which makes it if it does not exist, and keeps it")
)

// letter has arguments of the usual size.
type letter struct {
	Customer int64    `bson:"customer" json:"customer"`
	Name     string   `bson:"name" json:"name"`
	Address  address  `bson:"address" json:"address"`
	Lines    []string `bson:"lines" json:"lines"`
	Until    any      `bson:"until" json:"until"`
}

type address struct {
	Street string `bson:"street" json:"street"`
	City   string `bson:"city" json:"city"`
}

var sendLetter = job.Define("benchmarks-letter", 1, func(context.Context, letter) error { return nil })

// BenchmarkSearch searches the IDs and the arguments of jobs for three parts: one that only the job in the
// middle has, one that no job has, and one that all have. It reads pages until it has found 50 jobs or there
// are no more. It reports when the first job was found, how long all pages took, and the processor time.
// -jobs-searched=1000000 takes some minutes to prepare.
func BenchmarkSearch(b *testing.B) {
	for name, open := range storesFor(*searchedFile) {
		b.Run(name, func(b *testing.B) {
			d := open(b)
			defer func() { require.NoError(b, d.Close(b.Context())) }()
			fillLetters(b, d)
			searchLetters(b, d)
		})
	}
}

// fillLetters inserts the jobs, unless the store has them already. None is due. Every second one has a
// time in its arguments, whose stored form is not that of plain JSON.
func fillLetters(b *testing.B, d driver.Driver) {
	b.Helper()
	const atOnce = 1000
	totals, err := d.SumQueues(b.Context(), 1)
	require.NoError(b, err)
	if totals.Queues > 0 {
		return
	}
	times := amboy.JobTimeInfo{Created: time.Now(), WaitUntil: time.Now().Add(365 * 24 * time.Hour)}
	for from := 0; from < *jobsSearched; from += atOnce {
		var records []*driver.Record
		for n := from; n < min(from+atOnce, *jobsSearched); n++ {
			args := letter{
				Customer: int64(n), Name: fmt.Sprintf("Ann-%d Example", n),
				Address: address{Street: "12 Long Street", City: "Springfield"},
				Lines:   []string{"Dear customer", "your order was sent", "yours"},
			}
			if n%2 == 0 {
				args.Until = times.WaitUntil
			}
			var options []job.Option
			if n == *jobsSearched/2 {
				args.Lines[2] = "the needle"
				options = append(options, job.ID("benchmarks-letter-the-Needle"))
			}
			j, err := sendLetter.New(args, options...)
			require.NoError(b, err)
			j.UpdateTimeInfo(times)
			r, err := registry.MakeJobInterchange(j, amboy.BSON2)
			require.NoError(b, err)
			r.Group = fmt.Sprint("tenant-", n%20)
			r.Name = driver.RecordName(r.Group, j.ID(), r.RetryInfo)
			records = append(records, r)
		}
		errs, err := d.Insert(b.Context(), records)
		require.NoError(b, errors.Join(append(errs, err)...))
	}
}

func searchLetters(b *testing.B, d driver.Driver) {
	inspector, err := management.NewStoreInspector(d)
	require.NoError(b, err)
	for _, search := range []struct {
		name   string
		filter management.JobFilter
		want   int
	}{
		{"ID/one", management.JobFilter{IDPart: "the-needle"}, 1},
		{"ID/none", management.JobFilter{IDPart: "no such text"}, 0},
		{"ID/all", management.JobFilter{IDPart: "-letter-"}, management.DefaultLimit},
		{"args/one", management.JobFilter{ArgsPart: "needle"}, 1},
		{"args/none", management.JobFilter{ArgsPart: "no such text"}, 0},
		{"args/all", management.JobFilter{ArgsPart: "springfield"}, management.DefaultLimit},
	} {
		b.Run(search.name, func(b *testing.B) {
			var first time.Duration
			pages := 0
			busy := processorTime(b)
			for b.Loop() {
				begun, found := time.Now(), 0
				page := management.PageRequest{Newest: true}
				for more := true; more && found < management.DefaultLimit; more = page.Cursor != "" {
					jobs, err := inspector.FindJobs(b.Context(), search.filter, page)
					require.NoError(b, err)
					if found == 0 && len(jobs.Jobs) > 0 {
						first += time.Since(begun)
					}
					found += len(jobs.Jobs)
					page.Cursor = jobs.Next
					pages++
				}
				require.Equal(b, search.want, found)
			}
			perRun := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 / float64(b.N) }
			b.ReportMetric(perRun(b.Elapsed()), "ms")
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(perRun(first), "first-ms")
			b.ReportMetric(perRun(processorTime(b)-busy), "cpu-ms")
			b.ReportMetric(float64(pages)/float64(b.N), "pages")
		})
	}
}
