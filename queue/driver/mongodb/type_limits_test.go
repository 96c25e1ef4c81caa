package mongodb_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Each queue with limits of types cost each claim two commands, and four more if it had a job of
// another type.
func TestLimitsOfTypesCostClaimsOfOtherTypesManyCommands(t *testing.T) {
	for _, queues := range []int{1, 8, 30} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T) {
				d, sent := counted(t, newStore(t))
				recordIn := func(queue, id, jobType string) *driver.Record {
					return &driver.Record{Name: driver.RecordName(queue, id, amboy.JobRetryInfo{}), Group: queue, Type: jobType}
				}
				names := make([]string, queues)
				for i := range names {
					names[i] = fmt.Sprint("queue", i)
					for jobType, limit := range map[string]amboy.TypeLimit{
						"counted": {MaxRunning: 2}, "rated": {Rate: &amboy.Rate{PerSecond: 0.001, Burst: 1}},
					} {
						_, err := d.Control(t.Context(), names[i], driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: limit}})
						require.NoError(t, err)
					}
					// All types are known to this process.
					putAll(t, d, recordIn(names[i], "counted", "counted"), recordIn(names[i], "rated", "rated"), recordIn(names[i], "other", "other"))
				}
				request := request("owner", 200, names...)
				endAll(t, d, claimAll(t, d, request)...)
				assert.Empty(t, claimAll(t, d, request))

				count := sent.during(func() { assert.Empty(t, claimAll(t, d, request)) })
				assert.LessOrEqual(t, total(count), 1, "idle: %v", count)

				for _, name := range names {
					putAll(t, d, recordIn(name, "other again", "other"))
				}
				count = sent.during(func() { assert.Len(t, claimAll(t, d, request), queues) })
				assert.LessOrEqual(t, total(count), 4, "jobs of another type: a query, or two with many queues, and a write: %v", count)

				for _, name := range names {
					putAll(t, d, recordIn(name, "counted again", "counted"), recordIn(name, "rated again", "rated"))
				}
				count = sent.during(func() { assert.Len(t, claimAll(t, d, request), queues) })
				assert.LessOrEqual(t, total(count), 9+queues, "each queue is locked: %v", count)
				count = sent.during(func() { assert.Empty(t, claimAll(t, d, request)) })
				assert.LessOrEqual(t, total(count), 3, "types without room: %v", count)
			})
		})
	}
}
