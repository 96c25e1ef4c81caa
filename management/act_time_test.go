package management_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// haystack is a store that needs a quarter of a second to find a job.
type haystack struct{ driver.Driver }

func (h haystack) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	time.Sleep(250 * time.Millisecond) // fake time
	page.Limit = 1
	return h.Driver.Find(ctx, q, page)
}

// A server that limits the time of a request would never get to act on any job.
func TestAnActionSearchedTheWholeStoreInOneCall(t *testing.T) {
	for _, kind := range []management.ActionKind{management.Cancel, management.Complete} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemory(t)
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
			require.NoError(t, err)
			defer q.Close(ended())
			const jobs = 26
			for n := range jobs {
				require.NoError(t, q.Put(t.Context(), tonight(string(rune('a'+n)))))
			}
			i, err := management.NewStoreInspector(haystack{store})
			require.NoError(t, err)
			for _, isDry := range []bool{true, false} {
				req := management.ActRequest{
					Action: management.Action{Kind: kind}, Limit: 1000, DryRun: isDry,
					Filter: management.JobFilter{States: []amboy.JobState{amboy.StateScheduled}, TypePart: "alp"},
				}
				done := 0
				for {
					began := time.Now()
					acted, err := i.Act(t.Context(), req)
					require.NoError(t, err)
					assert.LessOrEqual(t, time.Since(began), 2*time.Second)
					assert.Positive(t, acted.Done)
					done += acted.Done
					if acted.Next == "" {
						break
					}
					req.Cursor = acted.Next
				}
				assert.Equal(t, jobs, done)
			}
		})
	}
}
