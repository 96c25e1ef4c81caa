package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// openFailed opens a file with 1,000,000 records that have ended, 100,000 of which failed, with
// 50 kinds of errors. It creates the file, unless AMBOY_FAILED is the path of an existing one.
func openFailed(b *testing.B) *sqlite.Driver {
	b.Helper()
	d, _, isNew := openNamed(b, "AMBOY_FAILED")
	if !isNew {
		return d
	}
	many := newManyRecords(b)
	var records []*driver.Record
	for i := range manyFinished {
		r, _ := many.record(i)
		r.RequiredScopes, r.TimeInfo.WaitUntil = nil, time.Time{}
		r.Status = amboy.JobStatusInfo{Completed: true}
		r.TimeInfo.End, r.ForgetAt = r.TimeInfo.Created.Add(2*time.Second), many.now.Add(24*time.Hour)
		if i%10 == 0 {
			r.Status.ErrorCount = 1
			r.Status.Errors = []string{fmt.Sprintf("reading page %d of kind %c%c: connection reset by peer", i, 'a'+i/10%10, 'g'+i/100%5)}
		}
		if records = append(records, r); len(records) == 10_000 {
			require.NoError(b, sqlite.InsertEnded(d, records))
			records = nil
		}
	}
	return d
}

// BenchmarkErrorGroups measures what an operator does with 100,000 failed jobs among 1,000,000.
func BenchmarkErrorGroups(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes minutes")
	}
	d := openFailed(b)
	inspector, err := management.NewStoreInspector(d)
	require.NoError(b, err)
	failed := management.JobFilter{States: []amboy.JobState{amboy.StateFailed}}
	groups, err := inspector.ErrorGroups(b.Context(), management.ErrorGroupRequest{Filter: failed})
	require.NoError(b, err)
	one := failed
	one.ErrorGroup = groups.Groups[0].Message
	nobody := failed
	nobody.ErrorGroup = "reading page # of kind ag: disk full"
	measure(b, "groups of all", func() (int, error) {
		groups, err := inspector.ErrorGroups(b.Context(), management.ErrorGroupRequest{Filter: failed})
		return groups.Examined, err
	})
	measure(b, "groups of one queue", func() (int, error) {
		filter := failed
		filter.Queues = []string{"tenant-3"}
		groups, err := inspector.ErrorGroups(b.Context(), management.ErrorGroupRequest{Filter: filter})
		return groups.Examined, err
	})
	for name, filter := range map[string]management.JobFilter{"one group": one, "no group": nobody} {
		measure(b, "first jobs of "+name, func() (int, error) {
			page, err := inspector.FindJobs(b.Context(), filter, management.PageRequest{Newest: true})
			return len(page.Jobs), err
		})
		measure(b, "count of "+name, func() (int, error) {
			count, err := inspector.CountJobs(b.Context(), filter, management.MaxCount)
			return count.Count, err
		})
	}
}
