package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// tagged returns the IDs of the jobs with the tag.
func tagged(t *testing.T, d *sqlite.Driver) []string {
	t.Helper()
	page, err := d.Find(t.Context(), driver.Query{Queues: []string{queueName}, Tags: []string{"tag"}}, driver.PageRequest{Limit: 10})
	require.NoError(t, err)
	ids := []string{}
	for _, r := range page.Records {
		ids = append(ids, r.JobID())
	}
	return ids
}

// failed adds a record with a tag, and fails it.
func failed(t *testing.T, d *sqlite.Driver, id string, forgetAt time.Time) {
	t.Helper()
	r := newRecord(t, id)
	r.Tags = []string{"tag", "tag"}
	insert(t, d, r)
	claimed := claim(t, d, 1)[0]
	claimed.Status.ErrorCount = 1
	end(t, d, claimed, forgetAt)
}

func act(t *testing.T, d *sqlite.Driver, kind driver.ActionKind) {
	t.Helper()
	acted, err := d.Act(t.Context(), driver.ActRequest{
		Query: driver.Query{Queues: []string{queueName}, ID: "job"}, Action: driver.Action{Kind: kind}, Limit: 10,
	})
	require.NoError(t, err)
	require.Equal(t, 1, acted.Done)
}

// The number of a removed record may be given to another one.
func TestTagsAreRemovedWithTheirRecords(t *testing.T) {
	for name, remove := range map[string]func(*testing.T, *sqlite.Driver){
		"deleted": func(t *testing.T, d *sqlite.Driver) { act(t, d, driver.Delete) },
		"forgotten": func(t *testing.T, d *sqlite.Driver) {
			require.Equal(t, 1, forget(t, d, 10))
		},
		"restarted, then deleted": func(t *testing.T, d *sqlite.Driver) {
			act(t, d, driver.Restart)
			require.Equal(t, []string{"job"}, tagged(t, d))
			end(t, d, claim(t, d, 1)[0], time.Time{})
			act(t, d, driver.Delete)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			d := open(t, sqlite.Options{Path: path})
			failed(t, d, "job", time.Now())
			assert.Equal(t, []string{"job"}, tagged(t, d))
			remove(t, d)
			insert(t, d, newRecord(t, "other"))
			assert.Empty(t, tagged(t, d))
			var rows int
			require.NoError(t, openRaw(t, path).QueryRowContext(t.Context(), "SELECT count(*) FROM tags").Scan(&rows))
			assert.Zero(t, rows)
		})
	}
}

func TestARestartedJobKeepsItsTags(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	failed(t, d, "job", time.Time{})
	insert(t, d, newRecord(t, "other"))
	act(t, d, driver.Restart)
	assert.Equal(t, []string{"job"}, tagged(t, d))
	assert.Equal(t, []string{"other", "job"}, list(t, d, amboy.StatePending))
}
