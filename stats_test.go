package amboy_test

import (
	"encoding/json"
	"testing"

	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
)

func TestQueueStatsIsComplete(t *testing.T) {
	for _, test := range []struct {
		name  string
		stats amboy.QueueStats
		want  bool
	}{
		{"empty", amboy.QueueStats{}, true},
		{"all completed", amboy.QueueStats{Total: 3, Completed: 3}, true},
		{"pending", amboy.QueueStats{Total: 3, Completed: 2, Pending: 1}, false},
		{"blocked", amboy.QueueStats{Total: 3, Completed: 2, Pending: 1, Blocked: 1}, true},
		{"blocked and pending", amboy.QueueStats{Total: 3, Completed: 1, Pending: 2, Blocked: 1}, false},
		{"running", amboy.QueueStats{Total: 3, Completed: 2, Running: 1}, false},
		{"running, counted as completed", amboy.QueueStats{Total: 3, Completed: 3, Running: 1}, true},
		{"retrying", amboy.QueueStats{Total: 3, Completed: 3, Retrying: 1}, false},
		{"not all completed", amboy.QueueStats{Total: 3, Completed: 2}, false},
		{"unknown", amboy.QueueStats{Err: errPlain}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, test.stats.IsComplete())
		})
	}
}

func TestQueueStatsIsIdle(t *testing.T) {
	for _, test := range []struct {
		name  string
		stats amboy.QueueStats
		want  bool
	}{
		{"empty", amboy.QueueStats{}, true},
		{"all completed", amboy.QueueStats{Total: 3, Completed: 3}, true},
		{"pending", amboy.QueueStats{Total: 3, Completed: 2, Pending: 1}, false},
		{"blocked", amboy.QueueStats{Total: 3, Completed: 2, Pending: 1, Blocked: 1}, false},
		{"running", amboy.QueueStats{Total: 3, Completed: 2, Running: 1}, false},
		{"retrying", amboy.QueueStats{Total: 3, Completed: 3, Retrying: 1}, false},
		{"not all completed", amboy.QueueStats{Total: 3, Completed: 2}, false},
		{"unknown", amboy.QueueStats{Err: errPlain}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, test.stats.IsIdle())
		})
	}
}

func TestQueueStatsIsAMessage(t *testing.T) {
	stats := amboy.QueueStats{Running: 1, Completed: 2, Retrying: 3, Pending: 4, Blocked: 5, Total: 6}
	var composer message.Composer = &stats
	assert.True(t, composer.Loggable())
	assert.Equal(t, "running='1', completed='2', retrying='3', pending='4', blocked='5', total='6'", composer.String())
	assert.Equal(t, stats, composer.Raw())

	require.NoError(t, composer.SetPriority(level.Alert))
	assert.Equal(t, level.Alert, composer.Priority())
	require.ErrorContains(t, composer.SetPriority(level.Invalid), "not a log level")
	assert.Equal(t, level.Alert, composer.Priority(), "a refused level changes nothing")

	require.NoError(t, composer.Annotate("service", "mail"))
	require.ErrorContains(t, composer.Annotate("service", "web"), `"service"`)
	require.NoError(t, composer.Annotate("region", "eu"))
	assert.Equal(t, message.Fields{"service": "mail", "region": "eu"}, stats.Context)
}

func TestQueueStatsStoredForm(t *testing.T) {
	stats := amboy.QueueStats{Running: 1, Completed: 2, Retrying: 3, Pending: 4, Blocked: 5, Total: 6}
	require.NoError(t, stats.SetPriority(level.Alert))
	const want = `{"running":1,"completed":2,"retrying":3,"pending":4,"blocked":5,"total":6}`

	stored, err := json.Marshal(stats)
	require.NoError(t, err)
	assert.JSONEq(t, want, string(stored))

	stored, err = bson.MarshalExtJSON(stats, false, false)
	require.NoError(t, err)
	assert.JSONEq(t, want, string(stored))
}
