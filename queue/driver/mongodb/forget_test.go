package mongodb_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
)

// finished inserts a job into queue q and ends it as failed.
func finished(tb testing.TB, d driver.Driver, id string) {
	tb.Helper()
	insert(tb, d, newRecord(tb, "q", id))
	all := claim(tb, d, driver.ClaimRequest{
		Owner: "owner", Queues: []driver.Demand{{Queue: "q", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
	})
	require.Len(tb, all, 1)
	e := *all[0]
	e.Status.Completed, e.Status.InProgress, e.Status.ErrorCount = true, false, 1
	e.TimeInfo.End = time.Now()
	errs, err := d.Complete(tb.Context(), []driver.Completion{{Lease: driver.LeaseOf(all[0]), Record: &e}})
	require.NoError(tb, err)
	require.NoError(tb, errs[0])
}

// failNext makes the next command with a name fail with an error code.
func (s *store) failNext(command string, code int) {
	s.Helper()
	require.NoError(s, s.client.Database("admin").RunCommand(s.Context(), bson.D{
		{Key: "configureFailPoint", Value: "failCommand"},
		{Key: "mode", Value: bson.D{{Key: "times", Value: 1}}},
		{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{command}}, {Key: "errorCode", Value: code}}},
	}).Err())
}

// TestDeleteThatFailsMidwayIsFinished makes the server refuse to remove a deleted record.
func TestDeleteThatFailsMidwayIsFinished(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newStore(t)
		d := s.open()
		finished(t, d, "job")
		const unauthorized = 13
		s.failNext("delete", unauthorized)
		request := driver.ActRequest{Action: driver.Action{Kind: driver.Delete}, Limit: 10}
		acted, err := d.Act(t.Context(), request)
		require.ErrorContains(t, err, `action "delete": after 1 records: removing 1 records, which Forget will remove later`)
		assert.Equal(t, 1, acted.Done)
		for _, kind := range []driver.ActionKind{driver.Delete, driver.Restart} {
			request.Action.Kind = kind
			acted, err = d.Act(t.Context(), request)
			require.NoError(t, err)
			assert.Equal(t, driver.Acted{Skipped: 1}, acted, "the record is being deleted")
		}
		n, err := d.Forget(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		stats, err := d.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, amboy.QueueStats{Total: 1, Completed: 1}.String(), stats.String())
	})
}

// TestForgetKeepsRecordsWithUnsettledDependents inserts a record whose dependents were
// not updated when it ended.
func TestForgetKeepsRecordsWithUnsettledDependents(t *testing.T) {
	synctest.Test(t, forgetKeepsUnsettledRecords)
}

func forgetKeepsUnsettledRecords(t *testing.T) {
	s := newStoreOf(t, mongotest.Options{InMemory: true, Standalone: true}) // whose sweep runs only after seconds
	d := s.open()
	synctest.Wait() // for the sweep of the start
	finished(t, d, "job")
	synctest.Wait() // for what its end has started
	set := func(settle bson.D) {
		_, err := s.jobs(true).UpdateOne(t.Context(), bson.D{{Key: "job_id", Value: "job"}}, settle)
		require.NoError(t, err)
	}
	forget := func() int {
		n, err := d.Forget(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		return n
	}
	set(bson.D{{Key: "$set", Value: bson.D{{Key: "settle", Value: true}, {Key: "forget_at", Value: time.Now().Add(-time.Hour)}}}})
	assert.Zero(t, forget())
	set(bson.D{{Key: "$unset", Value: bson.D{{Key: "settle", Value: ""}}}})
	assert.Equal(t, 1, forget())
}

func TestForgetTakesTwoCommandsForAQueue(t *testing.T) {
	synctest.Test(t, forgetTakesTwoCommands)
}

func forgetTakesTwoCommands(t *testing.T) {
	s := newStoreOf(t, mongotest.Options{InMemory: true})
	d := s.open()
	for _, id := range []string{"a", "b", "c"} {
		finished(t, d, id)
	}
	_, err := s.jobs(true).UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "forget_at", Value: time.Now()}}}})
	require.NoError(t, err)
	synctest.Wait()
	sent := s.commands(func() {
		n, err := d.Forget(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		assert.Equal(t, 3, n)
	})
	assert.Equal(t, []string{"find work.group", "delete work.group", "update work.group.control"}, sent[:3])
	synctest.Wait()
	sent = s.commands(func() {
		n, err := d.Forget(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		assert.Zero(t, n)
	})
	assert.Equal(t, []string{"find work.group"}, sent)
}

func TestSaveRefusesLargeRecords(t *testing.T) {
	d := newStore(t).open()
	insert(t, d, newRecord(t, "q", "job"))
	large := newRecord(t, "q", "job", func(j *job.ShellJob) { j.Command = strings.Repeat("x", 17<<20) })
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, d.Save(t.Context(), large), &invalid)
	assert.Equal(t, "size", invalid.Field)
	r, err := d.Get(t.Context(), "q", "job")
	require.NoError(t, err)
	assert.Less(t, len(r.Raw()), 1<<20)
}
