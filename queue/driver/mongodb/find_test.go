package mongodb_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

// newRecord is a job of a queue as it is put.
func newRecord(tb testing.TB, queue, id string, change ...func(j *job.ShellJob)) *driver.Record {
	tb.Helper()
	j := job.NewShellJob("true", "")
	j.SetID(id)
	for _, c := range change {
		c(j)
	}
	r, err := registry.MakeJobInterchange(j, amboy.BSON)
	require.NoError(tb, err)
	r.Group = queue
	r.Name = driver.RecordName(queue, id, r.RetryInfo)
	return r
}

func insert(tb testing.TB, d driver.Driver, records ...*driver.Record) {
	tb.Helper()
	errs, err := d.Insert(tb.Context(), records)
	require.NoError(tb, err)
	for i, err := range errs {
		require.NoError(tb, err, records[i].Name)
	}
}

// claim claims all that may run of a queue.
func claim(tb testing.TB, d driver.Driver, req driver.ClaimRequest) []*driver.Record {
	tb.Helper()
	claimed, err := d.Claim(tb.Context(), req)
	require.NoError(tb, err)
	return claimed.Records
}

func names(records []*driver.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, r.Name)
	}
	return all
}

func TestPagesOfAllQueues(t *testing.T) {
	s := newStore(t)
	d := s.open()
	var want []string
	for i := range 7 {
		r := newRecord(t, fmt.Sprint("queue", i%3), fmt.Sprint(i))
		insert(t, d, r)
		want = append(want, r.Name)
	}
	for _, newest := range []bool{false, true} {
		page := driver.PageRequest{Limit: 2, Newest: newest}
		var found []string
		for more := true; more; {
			got, err := d.Find(t.Context(), driver.Query{}, page)
			require.NoError(t, err)
			found = append(found, names(got.Records)...)
			page.After, more = got.Next, got.Next != ""
		}
		if newest {
			slices.Reverse(found)
		}
		assert.Equal(t, want, found, "newest %t", newest)
	}
}

func TestFindRefusesBadCursors(t *testing.T) {
	d := newStore(t).open()
	for _, after := range []driver.Cursor{"?", "1", "AAAA", "EAAAAAJvAAIAAABhAAA"} {
		_, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{After: after, Limit: 1})
		require.ErrorContains(t, err, "finding records: invalid cursor: After must be the Next of another page", after)
		_, err = d.Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Cancel}, After: after, Limit: 1})
		require.ErrorContains(t, err, `action "cancel": after 0 records: invalid cursor`, after)
	}
}

// TestReadsAreFew counts the commands of calls that read: it must not depend on
// the number of records.
func TestReadsAreFew(t *testing.T) {
	synctest.Test(t, readsAreFew)
}

func readsAreFew(t *testing.T) {
	s := newStoreOf(t, mongotest.Options{InMemory: true})
	d := s.open()
	var records []*driver.Record
	for i := range 500 {
		records = append(records, newRecord(t, fmt.Sprint("queue", i%10), fmt.Sprint(i)))
	}
	insert(t, d, records...)
	calls := map[string]struct {
		call func() error
		want []string
	}{
		"Find": {func() error {
			page, err := d.Find(t.Context(), driver.Query{States: []amboy.JobState{amboy.StatePending}}, driver.PageRequest{Limit: 100})
			assert.Len(t, page.Records, 100)
			return err
		}, []string{"find work.group"}},
		"Count": {func() error {
			n, err := d.Count(t.Context(), driver.Query{States: []amboy.JobState{amboy.StatePending, amboy.StateBlocked}}, 1000)
			assert.Equal(t, 500, n)
			return err
		}, []string{"aggregate work.group"}},
		"Get": {func() error {
			_, err := d.Get(t.Context(), "queue3", "3")
			return err
		}, []string{"find work.group"}},
		"Stats": {func() error {
			stats, err := d.Stats(t.Context(), "queue3")
			assert.Equal(t, 50, stats.Total)
			return err
		}, []string{"aggregate work.group"}},
		"Queues": {func() error {
			infos, err := d.Queues(t.Context())
			assert.Len(t, infos, 10)
			return err
		}, []string{"aggregate work.group"}},
		"Unfinished": {func() error {
			queues, err := d.Unfinished(t.Context())
			assert.Len(t, queues, 10)
			return err
		}, []string{"aggregate work.group"}},
		"CancelRequests": {func() error {
			_, err := d.CancelRequests(t.Context(), "owner")
			return err
		}, []string{"find work.group"}},
	}
	for name, test := range calls {
		synctest.Wait()
		sent := s.commands(func() { require.NoError(t, test.call(), name) })
		assert.Equal(t, test.want, sent, name)
	}
}

func TestOwnStoreHasOneQueue(t *testing.T) {
	d := newStore(t).open(own)
	insert(t, d, newRecord(t, "", "job"))
	for queue, want := range map[string]int{"": 1, "other": 0} {
		n, err := d.Count(t.Context(), driver.Query{Queues: []string{queue}}, 10)
		require.NoError(t, err)
		assert.Equal(t, want, n, "of queue %q", queue)
	}
	queues, err := d.Unfinished(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{""}, queues)
}

// TestIDsThatLookLikeNames has jobs whose IDs look like what others are stored
// under.
func TestIDsThatLookLikeNames(t *testing.T) {
	d := newStore(t).open()
	retryable := func(j *job.ShellJob) { j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)}) }
	insert(t, d,
		newRecord(t, "q", "a", retryable),
		newRecord(t, "q", "q.a"),
		newRecord(t, "q", "attempt-1.a"),
		newRecord(t, "q", "nul\x00"),
		newRecord(t, "q", `line\E`+"\n"),
	)
	for pattern, want := range map[string][]string{
		"a":           {"a"},
		"q.a":         {"q.a"},
		"attempt-0.a": nil,
		"attempt-1.a": {"attempt-1.a"},
		"attempt*":    {"attempt-1.a"},
		"*a":          {"a", "q.a", "attempt-1.a"},
		"nul\x00":     {"nul\x00"},
		"*\x00":       {"nul\x00"},
		"nul":         nil,
		`*\E?`:        {`line\E` + "\n"},
		`line\E`:      nil,
		`line\E*`:     {`line\E` + "\n"},
		"\xff*":       nil,
	} {
		for _, queues := range [][]string{nil, {"q"}, {"q", "other"}} {
			page, err := d.Find(t.Context(), driver.Query{ID: pattern, Queues: queues}, driver.PageRequest{Limit: 10})
			require.NoError(t, err)
			var found []string
			for _, r := range page.Records {
				found = append(found, r.JobID())
			}
			assert.Equal(t, want, found, "pattern %q of %q", pattern, queues)
		}
	}
	notFound := func(id string) bool {
		_, err := d.Get(t.Context(), "q", id)
		return amboy.IsJobNotFoundError(err)
	}
	assert.True(t, notFound("attempt-0.a"))
	assert.True(t, notFound("nul"))
	assert.False(t, notFound("nul\x00"))
}

var _ driver.Driver = (*mongodb.Driver)(nil)
