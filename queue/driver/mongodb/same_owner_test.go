package mongodb_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// claimTwice returns what two claims of one owner take. The first update of the first claim has a fate, after the
// second claim was made.
func claimTwice(t *testing.T, s *mongotest.Deployment, d *mongodb.Driver, first driver.ClaimRequest, fate mongotest.Fate, second driver.ClaimRequest) (running []*driver.Record) {
	t.Helper()
	var begun atomic.Bool
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.AppName != s.Database() || c.Collection != "work.group" || c.Name != "update" || begun.Swap(true) {
			return mongotest.Served
		}
		running = claimAll(t, d, second)
		return fate
	})
	return append(claimAll(t, d, first), running...)
}

// Two workers of one owner asked for jobs at once. The connection of one claim broke, and the next claim handed back
// a job as one that the first might have taken. The other worker ran it, and so it ran twice at once.
func TestAJobThatAnotherClaimOfItsOwnerTookWasHandedBack(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		putAll(t, d, plainRecord("job"))
		first, second := request("owner", 1, "queue"), request("owner", 1, "queue")
		second.Now = second.Now.Add(time.Millisecond)
		running := claimTwice(t, s, d, first, mongotest.Unserved, second)
		require.Len(t, running, 1)
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
		lost, err := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(running[0])}, time.Minute)
		require.NoError(t, err)
		assert.Empty(t, lost)
	})
}

// Two workers of one owner asked for jobs in the same millisecond, and each got the same job.
func TestTwoClaimsOfOneOwnerGaveTheSameJob(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		putAll(t, d, plainRecord("1"), plainRecord("2"))
		running := claimTwice(t, s, d, request("owner", 2, "queue"), mongotest.Served, request("owner", 1, "queue"))
		assert.ElementsMatch(t, []string{"queue.1", "queue.2"}, names(running))
	})
}
