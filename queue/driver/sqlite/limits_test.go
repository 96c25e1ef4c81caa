package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// A claimed record no longer keeps others to its limit, so one that waited behind it may run beside it.
// No claim was asked for, so that it started only when the first ended, or with the next poll.
func TestAJobWithALargerLimitWaitedForTheEndOfTheOneBefore(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	insert(t, d, scoped(t, "first", 0, amboy.LimitScope("key", 1)), scoped(t, "second", 0, amboy.LimitScope("key", 2)))
	req := request(2)
	var ids []string
	for range 3 {
		claimed, err := d.Claim(t.Context(), req)
		require.NoError(t, err)
		for _, r := range claimed.Records {
			ids = append(ids, r.JobID())
		}
		if claimed.Next.IsZero() || claimed.Next.After(req.Now) {
			break
		}
	}
	assert.Equal(t, []string{"first", "second"}, ids)
}
