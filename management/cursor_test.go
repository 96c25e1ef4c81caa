package management_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// newTwoTenants returns an inspector of a group in which tenant "mine" has two jobs, and
// tenant "theirs" has the given number.
func newTwoTenants(t *testing.T, store driver.Driver, others int) management.Inspector {
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { closeGroup(t, group) })
	theirs, err := group.Get(t.Context(), "theirs")
	require.NoError(t, err)
	for n := range others {
		require.NoError(t, theirs.Put(t.Context(), tonight(fmt.Sprint("other", n))))
	}
	mine, err := group.Get(t.Context(), "mine")
	require.NoError(t, err)
	for _, id := range []string{"a", "b"} {
		require.NoError(t, mine.Put(t.Context(), tonight(id)))
	}
	i, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	return i
}

var ofMine = management.JobFilter{Queues: []string{"mine"}}

// A cursor contains a place in the order of all jobs of a store, or a time of the audit list.
// It must not reveal to a tenant how many jobs other tenants put, or when they acted.
func TestAttackACursorIsReadByATenant(t *testing.T) {
	first := management.PageRequest{Limit: 1}
	lengths := map[int]bool{}
	for _, others := range []int{0, 1234} {
		i := newTwoTenants(t, newMemory(t), others)
		for range 2 {
			_, err := i.SetControl(t.Context(), "theirs", management.ControlChange{Paused: new(true)})
			require.NoError(t, err)
			_, err = i.SetControl(t.Context(), "theirs", management.ControlChange{Paused: new(false)})
			require.NoError(t, err)
		}
		jobs, err := i.FindJobs(t.Context(), ofMine, first)
		require.NoError(t, err)
		audit, err := i.Audit(t.Context(), management.AuditFilter{}, first)
		require.NoError(t, err)
		acted, err := i.Act(t.Context(), management.ActRequest{Action: management.Action{Kind: management.Park}, Filter: ofMine, Limit: 1, DryRun: true})
		require.NoError(t, err)
		for name, cursor := range map[string]string{"jobs": jobs.Next, "audit": audit.Next, "act": acted.Next} {
			require.NotEmpty(t, cursor, name)
			plain, errDecode := base64.RawURLEncoding.DecodeString(cursor)
			require.NoError(t, errDecode)
			for _, secret := range []string{`"a":`, "1234", "1235", audit.Entries[0].Time.UTC().Format("2006-01-02")} {
				assert.NotContains(t, string(plain), secret, name)
			}
			if name == "jobs" {
				lengths[len(cursor)] = true
			}
		}
		again, err := i.FindJobs(t.Context(), ofMine, first)
		require.NoError(t, err)
		assert.NotEqual(t, jobs.Next, again.Next, "two cursors can't be compared")
	}
	assert.Len(t, lengths, 1, "the length does not depend on the number of jobs")
}

func TestAttackACursorIsForged(t *testing.T) {
	i := newTwoTenants(t, newMemory(t), 3)
	page, err := i.FindJobs(t.Context(), ofMine, management.PageRequest{Limit: 1})
	require.NoError(t, err)
	sealed, err := base64.RawURLEncoding.DecodeString(page.Next)
	require.NoError(t, err)
	forged := []string{"AAAA", base64.RawURLEncoding.EncodeToString(sealed[:len(sealed)-1]), strings.Repeat("A", 20_000)}
	for n := range sealed {
		changed := append([]byte{}, sealed...)
		changed[n] ^= 1
		forged = append(forged, base64.RawURLEncoding.EncodeToString(changed))
	}
	elsewhere := newTwoTenants(t, newMemory(t), 3)
	ofOther, err := elsewhere.FindJobs(t.Context(), ofMine, management.PageRequest{Limit: 1})
	require.NoError(t, err)
	for _, cursor := range append(forged, ofOther.Next) {
		_, err = i.FindJobs(t.Context(), ofMine, management.PageRequest{Cursor: cursor})
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, err, &argument)
		assert.Equal(t, "cursor", argument.Field)
	}
}

// The next page may be requested from another host, or after a restart.
func TestCursorIsValidInAllProcessesOnAStore(t *testing.T) {
	store := newMemory(t)
	i := newTwoTenants(t, store, 0)
	page, err := i.FindJobs(t.Context(), ofMine, management.PageRequest{Limit: 1})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "mine", NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(ended())
	another, err := management.NewInspector(q)
	require.NoError(t, err)
	next, err := another.FindJobs(t.Context(), ofMine, management.PageRequest{Cursor: page.Next})
	require.NoError(t, err)
	require.Len(t, next.Jobs, 1)
	assert.Equal(t, "b", next.Jobs[0].ID)
}
