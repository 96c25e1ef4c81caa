package mongodb_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// Candidates that another process claimed first counted as given, so a claim returned
// fewer records than existed, and no process claimed the rest until the next change.
func TestAClaimContinuesIfAnotherProcessTookItsCandidates(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newStore(t)
		other := s.open()
		var claiming atomic.Bool
		opts := *s.options
		opts.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if to, _ := e.Command.Lookup("update").StringValueOK(); to == "work.group" && claiming.Swap(false) {
				assert.Equal(t, []string{"queue.1", "queue.2"}, names(claim(t, other, request("other", 2, "queue")))) //nolint:contextcheck // It uses the test's context.
			}
		}})
		client, err := mongo.Connect(t.Context(), &opts)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
		d := s.open(func(o *mongodb.Options) { o.Client = client })
		insert(t, other, plainRecord("1"), plainRecord("2"), plainRecord("3"), plainRecord("4"), plainRecord("5"), plainRecord("6"))
		claiming.Store(true)
		assert.Len(t, claim(t, d, request("owner", 3, "queue")), 3, "the requested number exists")
	})
}
