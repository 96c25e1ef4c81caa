package mongodb_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func limitType(jobType string) driver.ControlChange {
	return driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: amboy.TypeLimit{MaxRunning: 1}}}
}

// Many processes start at once, and each sets the limits of its types.
func TestLimitsOfTypesThatManyProcessesSetAtOnceWereRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow, others = "slow", 5
		s := mongotest.Open(t, mongotest.InMemory())
		client, err := mongo.Connect(t.Context(), s.ClientOptions().SetAppName(slow))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
		d, other := openOn(t, s, func(o *mongodb.Options) { o.Client = client }), openOn(t, s)
		var tries atomic.Int64
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.AppName == slow && c.Name == "findAndModify" {
				if n := tries.Add(1); n <= others {
					_, otherErr := other.Control(context.Background(), "queue", limitType(fmt.Sprint("other", n)))
					assert.NoError(t, otherErr)
				}
			}
			return mongotest.Served
		})
		control, err := d.Control(t.Context(), "queue", limitType("own"))
		require.NoError(t, err)
		assert.Len(t, control.Types, others+1)
	})
}
