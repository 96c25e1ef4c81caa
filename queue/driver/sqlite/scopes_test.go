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

// A record with a small limit is first in its line, and then waits for something else.
func TestARecordThatNoLongerWaitsForASmallLimitDoesNotHoldUpThoseWithALargerOne(t *testing.T) {
	limited := func(t *testing.T, id string, limit int) *driver.Record {
		r := newRecord(t, id)
		r.RequiredScopes = []string{amboy.LimitScope("l", limit)}
		return r
	}
	later := time.Now().Add(time.Hour)
	for name, action := range map[string]driver.Action{
		"rescheduled": {Kind: driver.Reschedule, At: later},
		"runs later":  {Kind: driver.Prioritize, Priority: -1},
		"parked":      {Kind: driver.Park},
		"canceled":    {Kind: driver.Cancel},
		"edited":      {Kind: driver.Edit, Edit: &driver.EditedFields{WaitUntil: &later}},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, sqlite.Options{Path: newPath(t)})
			insert(t, d, limited(t, "running", 2))
			require.Len(t, claim(t, d, 10), 1)
			insert(t, d, limited(t, "small", 1), limited(t, "large", 2))
			require.Empty(t, claim(t, d, 10))

			acted, err := d.Act(t.Context(), driver.ActRequest{Query: driver.Query{JobIDs: []string{"small"}}, Action: action, Limit: 1})
			require.NoError(t, err)
			require.Equal(t, 1, acted.Done)
			claimed := claim(t, d, 10)
			require.Len(t, claimed, 1)
			assert.Equal(t, "large", claimed[0].JobID())
		})
	}
}
