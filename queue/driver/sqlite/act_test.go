package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// An action on the jobs with a part of an ID searched the IDs of all jobs while it kept all writers
// waiting.
func TestAnActionSearchedTheIDsOfAllJobsWhileOthersWaitedToWrite(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	insertMany(t, d, queueName, 1000, func(*driver.Record) {})
	compared, err := sqlite.CountCalls(d, "instr")
	require.NoError(t, err)
	acted, err := d.Act(t.Context(), driver.ActRequest{
		Query: driver.Query{IDPart: "nothing"}, Action: driver.Action{Kind: driver.Cancel}, Limit: 10,
	})
	require.NoError(t, err)
	assert.Equal(t, driver.Acted{}, acted)
	assert.Zero(t, compared.Load())
}
