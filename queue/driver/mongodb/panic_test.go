package mongodb_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/event"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// The engine recovers from a panic of a driver, such as one in a monitor of a service's client. A call of the driver
// that sends commands from other goroutines must not let it end the process.
func TestAPanicOfAMonitorEndedTheProcess(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		var broken atomic.Pointer[string] // a part of the command whose monitor panics
		client := watched(t, s, &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if part := broken.Load(); part != nil && strings.Contains(e.Command.String(), *part) {
				broken.Store(nil)
				panic("broken")
			}
		}})
		d := openOn(t, s, func(o *mongodb.Options) { o.Client = client })
		putAll(t, d, plainRecord("target"), plainRecord("dependent", dependsOn("target")))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		broken.Store(new(`"line.edges"`))
		assert.Panics(t, func() { endAll(t, d, running...) })

		broken.Store(new(`"$unionWith"`))
		_, err := d.Claim(t.Context(), request("owner", 1, "queue"))
		var panicked *amboy.PanicError
		require.ErrorAs(t, err, &panicked)
	})
}
