package management_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

func TestAudit(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup}, func(f *inspected) {
		f.ctx = management.WithActor(f.ctx, "ann")
		start := time.Now()
		_, err := f.SetControl(f.ctx, f.name, management.ControlChange{Paused: new(true)})
		require.NoError(f, err)
		_, err = f.SetControl(f.ctx, f.name, management.ControlChange{})
		require.NoError(f, err)
		secret := json.RawMessage(`{"key":"hunter2"}`)
		_, err = f.CreateJob(f.ctx, management.NewJob{Queue: f.name, ID: "made", Type: "alpha", Args: secret})
		require.NoError(f, err)
		f.act("made", management.Action{Kind: management.Park, Reason: "later"})
		_, err = f.ActOn(f.ctx, f.name, "made", management.Action{Kind: management.Park})
		require.NoError(f, err)
		_, err = f.ActOn(f.ctx, f.name, "made", management.Action{Kind: management.Delete})
		require.Error(f, err)
		all := management.ActRequest{
			Action: management.Action{Kind: management.Cancel}, Limit: 10, DryRun: true,
			Filter: management.JobFilter{Queues: []string{f.name}, Types: []string{"alpha"}},
		}
		_, err = f.Act(f.ctx, all)
		require.NoError(f, err)
		all.DryRun = false
		acted, err := f.Act(f.ctx, all)
		require.NoError(f, err)

		want := []management.AuditEntry{
			{What: "cancel", Done: acted.Done, Skipped: acted.Skipped},
			{What: "refused", Refused: 1},
			{What: "park", JobID: "made", Skipped: 1},
			{What: "park", JobID: "made", Done: 1},
			{What: "create", JobID: "made", Done: 1},
			{What: "control"},
		}
		page := management.PageRequest{Limit: 4}
		var got []management.AuditEntry
		for {
			found, err := f.Audit(f.ctx, management.AuditFilter{}, page)
			require.NoError(f, err)
			got = append(got, found.Entries...)
			if found.Next == "" {
				break
			}
			page.Cursor = found.Next
		}
		require.Len(f, got, len(want))
		for n, entry := range got {
			assert.Equal(f, "ann", entry.Actor)
			assert.Equal(f, f.name, entry.Queue)
			assert.WithinRange(f, entry.Time, start.Add(-time.Second), time.Now().Add(time.Second))
			assert.NotContains(f, entry.Detail, "hunter2")
			assert.NotEmpty(f, entry.Detail)
			assert.Empty(f, entry.Error)
			got[n].Time, got[n].Actor, got[n].Queue, got[n].Detail, got[n].Error = time.Time{}, "", "", "", ""
		}
		assert.Equal(f, want, got)
	})
}

func TestAuditOfSomeQueues(t *testing.T) {
	i := newTwoTenants(t, newMemory(t), 1)
	control := func(name string) {
		_, err := i.SetControl(t.Context(), name, management.ControlChange{MaxRunning: new(3)})
		require.NoError(t, err)
	}
	for range 2 {
		control("theirs")
		control("mine")
	}
	both := management.ActRequest{
		Action: management.Action{Kind: management.Park}, Filter: management.JobFilter{Queues: []string{"mine", "theirs"}}, Limit: 10,
	}
	_, err := i.Act(t.Context(), both)
	require.NoError(t, err)
	for _, test := range []struct{ queues, want []string }{
		{nil, []string{"", "mine", "theirs", "mine", "theirs"}},
		{[]string{"mine"}, []string{"mine", "mine"}},
		{[]string{"theirs", "theirs"}, []string{"theirs", "theirs"}},
		{[]string{"theirs", "mine"}, []string{"mine", "theirs", "mine", "theirs"}},
		{[]string{"nowhere"}, nil},
		{[]string{"nowhere", "mine"}, []string{"mine", "mine"}},
	} {
		for limit := 1; limit <= 3; limit++ {
			var got []string
			page := management.PageRequest{Limit: limit}
			for {
				found, auditErr := i.Audit(t.Context(), management.AuditFilter{Queues: test.queues}, page)
				require.NoError(t, auditErr)
				for _, e := range found.Entries {
					got = append(got, e.Queue)
				}
				if page.Cursor = found.Next; page.Cursor == "" {
					break
				}
				assert.Len(t, found.Entries, limit, "only the last page may be short")
			}
			assert.Equal(t, test.want, got, "%q by %d", test.queues, limit)
		}
	}
	first, err := i.Audit(t.Context(), management.AuditFilter{Queues: []string{"mine"}}, management.PageRequest{Limit: 1})
	require.NoError(t, err)
	_, err = i.Audit(t.Context(), management.AuditFilter{Queues: []string{"theirs"}}, management.PageRequest{Cursor: first.Next})
	var invalid *management.InvalidArgumentError
	require.ErrorAs(t, err, &invalid, "a cursor is for one list")
	_, err = i.Audit(t.Context(), management.AuditFilter{Queues: []string{"\xff"}}, management.PageRequest{})
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "queues", invalid.Field)
}

func TestAuditIsBounded(t *testing.T) {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(ended())
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	var old []driver.Note
	for n := range management.MaxAudit + 100 {
		old = append(old, driver.Note{Kind: "audit", Key: fmt.Sprintf("1999-01-01T00:00:00.%09dZ x", n), Value: []byte("{}"), Until: inAnHour()})
	}
	require.NoError(t, store.Admin().Keep(t.Context(), old...))
	count := func() int {
		notes, errNotes := store.Admin().Notes(t.Context(), driver.NoteRequest{Kind: "audit", Limit: 2 * management.MaxAudit})
		require.NoError(t, errNotes)
		return len(notes)
	}
	for n := 0; count() > management.MaxAudit; n++ {
		require.Less(t, n, 10_000)
		_, err = i.SetControl(t.Context(), "", management.ControlChange{Paused: new(n%2 == 0)})
		require.NoError(t, err)
	}
	page, err := i.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{Limit: 1})
	require.NoError(t, err)
	assert.Equal(t, "control", page.Entries[0].What, "the oldest entries are dropped")
}

// readOnlyNotes fails to write notes.
type readOnlyNotes struct{ driver.Driver }

var errNoSpace = errors.New("no space")

func (readOnlyNotes) Keep(context.Context, ...driver.Note) error { return errNoSpace }

func TestActionThatIsNotRecordedReturnsErrNotRecorded(t *testing.T) {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: readOnlyNotes{newMemory(t)}, CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(ended())
	require.NoError(t, q.Put(t.Context(), tonight("a")))
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	acted, err := i.ActOn(t.Context(), "", "a", management.Action{Kind: management.Cancel})
	require.ErrorIs(t, err, management.ErrNotRecorded)
	require.ErrorIs(t, err, errNoSpace)
	assert.Equal(t, management.Acted{Done: 1}, acted)
	job, err := i.Job(t.Context(), "", "a")
	require.NoError(t, err)
	assert.Equal(t, amboy.StateCanceled, job.State)
}

// auditOf returns all entries of the audit list, the latest first.
func auditOf(t *testing.T, i management.Inspector) []management.AuditEntry {
	t.Helper()
	var all []management.AuditEntry
	page := management.PageRequest{Limit: management.MaxLimit}
	for {
		found, err := i.Audit(t.Context(), management.AuditFilter{}, page)
		require.NoError(t, err)
		all = append(all, found.Entries...)
		if found.Next == "" {
			return all
		}
		page.Cursor = found.Next
	}
}

// entriesOf returns the entries about a queue.
func entriesOf(entries []management.AuditEntry, name string) []management.AuditEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e management.AuditEntry) bool { return e.Queue != name })
}

// noteCount counts the notes of the audit list in a store.
func noteCount(t *testing.T, store driver.Driver) int {
	t.Helper()
	n := 0
	for _, kind := range []string{"audit", "audit-queue"} {
		notes, err := store.Notes(t.Context(), driver.NoteRequest{Kind: kind, Limit: 10 * management.MaxAudit})
		require.NoError(t, err)
		n += len(notes)
	}
	return n
}

// A tenant whose calls are refused again and again must not push other entries out of the
// list, nor fill the store.
func TestAttackATenantFillsTheAuditListWithRefusals(t *testing.T) {
	store := newMemory(t)
	i := newTwoTenants(t, store, 1)
	_, err := i.ActOn(t.Context(), "mine", "a", management.Action{Kind: management.Park})
	require.NoError(t, err)
	before := noteCount(t, store)
	eve := management.WithActor(t.Context(), "eve")
	const attempts = 10_400
	for n := range attempts {
		switch n % 3 {
		case 0:
			_, err = i.ActOn(eve, "theirs", "other0", management.Action{Kind: management.Delete})
		case 1:
			_, err = i.ActOn(eve, "theirs", fmt.Sprint("nothing", n), management.Action{Kind: management.Delete})
		default:
			_, err = i.CreateJob(eve, management.NewJob{Queue: "theirs", ID: "other0", Type: "alpha"})
		}
		require.Error(t, err)
	}
	assert.Less(t, noteCount(t, store)-before, 40)
	all := auditOf(t, i)
	require.Len(t, entriesOf(all, "mine"), 1)
	theirs := entriesOf(all, "theirs")
	require.Len(t, theirs, 1, "refused calls are counted in one entry")
	assert.Equal(t, "refused", theirs[0].What)
	assert.Equal(t, "eve", theirs[0].Actor)
	assert.Equal(t, attempts, theirs[0].Refused)
	assert.Zero(t, theirs[0].Done)

	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "theirs", NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(ended())
	elsewhere, err := management.NewInspector(q)
	require.NoError(t, err)
	entries := auditOf(t, elsewhere)
	require.Len(t, entries, 1)
	assert.Greater(t, entries[0].Refused, attempts/2, "another process knows at least half of the count")
}

// The same holds for calls with invented queue names, and for a caller with many names.
func TestAttackRefusalsInQueuesThatDoNotExist(t *testing.T) {
	store := newMemory(t)
	i := newTwoTenants(t, store, 1)
	for n := range 3000 {
		_, err := i.ActOn(t.Context(), fmt.Sprint("nowhere", n), "x", management.Action{Kind: management.Delete})
		require.ErrorIs(t, err, management.ErrUnknownQueue)
	}
	assert.Less(t, noteCount(t, store), 10)
	all := auditOf(t, i)
	require.Len(t, all, 1)
	assert.Equal(t, 3000, all[0].Refused)

	for n := range 3000 {
		_, err := i.ActOn(management.WithActor(t.Context(), fmt.Sprint("eve", n)), "nowhere", "x", management.Action{Kind: management.Delete})
		require.ErrorIs(t, err, management.ErrUnknownQueue)
	}
	// On average one write of 64 trims the list.
	assert.Less(t, len(auditOf(t, i)), 2*management.MaxAuditOfQueue)

	for n := range 3000 {
		_, err := i.ActOn(management.WithActor(t.Context(), fmt.Sprint("eve", n)), "theirs", "x", management.Action{Kind: management.Delete})
		require.Error(t, err)
	}
	assert.Less(t, len(entriesOf(auditOf(t, i), "theirs")), 2*management.MaxAuditOfQueue)
}

func TestAttackATenantFillsTheAuditListWithAllowedActions(t *testing.T) {
	store := newMemory(t)
	i := newTwoTenants(t, store, 1)
	_, err := i.ActOn(t.Context(), "mine", "a", management.Action{Kind: management.Park})
	require.NoError(t, err)
	for n := range 3 * management.MaxAuditOfQueue {
		_, err = i.SetControl(t.Context(), "theirs", management.ControlChange{Paused: new(n%2 == 0)})
		require.NoError(t, err)
	}
	all := auditOf(t, i)
	assert.Len(t, entriesOf(all, "mine"), 1)
	// On average one write of 64 trims the list.
	assert.Less(t, len(entriesOf(all, "theirs")), 2*management.MaxAuditOfQueue)
	assert.Less(t, noteCount(t, store), 4*management.MaxAuditOfQueue+10)
	assert.Equal(t, "control", all[0].What, "the oldest entries are dropped")
}

// An action by a filter on two queues names neither in the list, so that it is not bounded
// by queue. The one who acts must not push out the entries of others.
func TestAttackATenantFillsTheAuditListWithActionsOnTwoQueues(t *testing.T) {
	store := newMemory(t)
	i := newTwoTenants(t, store, 1)
	ann, eve := management.WithActor(t.Context(), "ann"), management.WithActor(t.Context(), "eve")
	nothing := management.ActRequest{
		Action: management.Action{Kind: management.Park}, Limit: 1,
		Filter: management.JobFilter{Queues: []string{"mine", "theirs"}, IDs: []string{"nothing"}},
	}
	_, err := i.Act(ann, nothing)
	require.NoError(t, err)
	for range 2 * management.MaxAuditOfActor {
		_, err = i.Act(eve, nothing)
		require.NoError(t, err)
	}
	all := auditOf(t, i)
	assert.Equal(t, "ann", all[len(all)-1].Actor, "her entry is the oldest one")
	// On average one write of 64 trims the list.
	assert.Less(t, len(all), 3*management.MaxAuditOfActor/2)
	assert.Less(t, noteCount(t, store), 4*management.MaxAuditOfActor)
}

// leakyStore returns errors with details that a tenant must not read.
type leakyStore struct {
	driver.Driver
	err error
}

const secretError = "dial tcp: lookup db-7.internal.example: user amboy, password hunter2"

func (s *leakyStore) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	if s.err != nil {
		return driver.Acted{}, s.err
	}
	return s.Driver.Act(ctx, req)
}

func (s *leakyStore) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Driver.Insert(ctx, records)
}

func (s *leakyStore) Control(ctx context.Context, name string, change driver.ControlChange) (driver.Control, error) {
	if s.err != nil && change != (driver.ControlChange{}) {
		return driver.Control{}, s.err
	}
	return s.Driver.Control(ctx, name, change)
}

func TestAttackTheAuditListLeaksErrorsOfTheStore(t *testing.T) {
	for name, failure := range map[string]error{
		"of the store":                   errors.New(secretError),
		"of the store, with a known one": errors.Join(amboy.NewDuplicateJobError("the ID is taken"), errors.New(secretError)),
		"around a known one":             fmt.Errorf("%s: %w", secretError, amboy.ErrQueueClosed),
	} {
		t.Run(name, func(t *testing.T) {
			store := &leakyStore{Driver: newMemory(t)}
			i := newTwoTenants(t, store, 1)
			store.err = failure
			_, err := i.SetControl(t.Context(), "mine", management.ControlChange{Paused: new(true)})
			require.ErrorContains(t, err, "hunter2", "a Go caller gets the complete error")
			_, err = i.ActOn(t.Context(), "mine", "a", management.Action{Kind: management.Park})
			require.Error(t, err)
			_, err = i.Act(t.Context(), management.ActRequest{Action: management.Action{Kind: management.Park}, Filter: ofMine, Limit: 10})
			require.Error(t, err)
			_, err = i.CreateJob(t.Context(), management.NewJob{Queue: "mine", ID: "new", Type: "alpha"})
			require.Error(t, err)
			entries := auditOf(t, i)
			require.NotEmpty(t, entries)
			for _, e := range entries {
				for _, secret := range []string{"hunter2", "db-7", "dial"} {
					assert.NotContains(t, fmt.Sprintf("%+v", e), secret)
				}
			}
		})
	}
}

func TestAuditFilter(t *testing.T) {
	i := newTwoTenants(t, newMemory(t), 1)
	control := func(actor, queue string) {
		_, err := i.SetControl(management.WithActor(t.Context(), actor), queue, management.ControlChange{MaxRunning: new(3)})
		require.NoError(t, err)
	}
	control("ann", "mine")
	control("ben", "theirs")
	control("", "mine")
	_, err := i.Act(management.WithActor(t.Context(), "ann"), management.ActRequest{
		Action: management.Action{Kind: management.Park}, Filter: management.JobFilter{Queues: []string{"mine"}}, Limit: 10,
	})
	require.NoError(t, err)
	all, err := i.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{})
	require.NoError(t, err)
	require.Len(t, all.Entries, 4)
	at := all.Entries[1].Time
	for name, test := range map[string]struct {
		filter management.AuditFilter
		want   []int // indexes in all
	}{
		"all":                        {management.AuditFilter{}, []int{0, 1, 2, 3}},
		"actor":                      {management.AuditFilter{Actors: []string{"ann"}}, []int{0, 3}},
		"no actor":                   {management.AuditFilter{Actors: []string{""}}, []int{1}},
		"two actors":                 {management.AuditFilter{Actors: []string{"", "ben"}}, []int{1, 2}},
		"what":                       {management.AuditFilter{What: []string{"park", "retry"}}, []int{0}},
		"what, actor, queue":         {management.AuditFilter{What: []string{"control"}, Actors: []string{"ann"}, Queues: []string{"mine"}}, []int{3}},
		"job":                        {management.AuditFilter{JobID: "nothing"}, nil},
		"from":                       {management.AuditFilter{Time: management.TimeRange{From: at}}, []int{0, 1}},
		"to":                         {management.AuditFilter{Time: management.TimeRange{To: at}}, []int{2, 3}},
		"from a time, of one queue":  {management.AuditFilter{Queues: []string{"mine"}, Time: management.TimeRange{From: at}}, []int{0, 1}},
		"to a time, of one queue":    {management.AuditFilter{Queues: []string{"mine"}, Time: management.TimeRange{To: at}}, []int{3}},
		"between two equal times":    {management.AuditFilter{Time: management.TimeRange{From: at, To: at}}, nil},
		"queue that does not exist":  {management.AuditFilter{Queues: []string{"nowhere"}, Actors: []string{"ann"}}, nil},
		"actor that does not matter": {management.AuditFilter{Actors: []string{"ANN"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var want []management.AuditEntry
			for _, n := range test.want {
				want = append(want, all.Entries[n])
			}
			for limit := 1; limit <= 3; limit++ {
				var got []management.AuditEntry
				for page := (management.PageRequest{Limit: limit}); ; {
					found, errPage := i.Audit(t.Context(), test.filter, page)
					require.NoError(t, errPage)
					got = append(got, found.Entries...)
					if page.Cursor = found.Next; page.Cursor == "" {
						break
					}
				}
				assert.Equal(t, want, got, "by %d", limit)
			}
		})
	}
	_, err = i.Audit(t.Context(), management.AuditFilter{What: []string{""}}, management.PageRequest{})
	var invalid *management.InvalidArgumentError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "what", invalid.Field)
}
