package management_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// TestLongIDsAreListedOnPages lists jobs with the longest IDs, of a queue with the
// longest name, one on each page.
func TestLongIDsAreListedOnPages(t *testing.T) {
	ofDriver := func(open func(*testing.T) driver.Driver) func(*testing.T) (amboy.QueueGroup, error) {
		return func(t *testing.T) (amboy.QueueGroup, error) {
			return queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{
				DefaultQueue: queue.DriverQueueOptions{Driver: open(t), CloseDriver: true, NumWorkers: 1},
			})
		}
	}
	for name, open := range map[string]func(*testing.T) (amboy.QueueGroup, error){
		"local": func(*testing.T) (amboy.QueueGroup, error) {
			return queue.NewLocalQueueGroup(context.Background(), queue.LocalQueueGroupOptions{
				DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
					return queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
				}},
			})
		},
		"memory":   ofDriver(newMemory),
		"sqlite":   ofDriver(newSQLite),
		"postgres": ofDriver(newPostgres),
		"mongodb": ofDriver(func(t *testing.T) driver.Driver {
			store, _ := newMongoDB(t, true)
			return store
		}),
	} {
		t.Run(name, func(t *testing.T) {
			group, err := open(t)
			require.NoError(t, err)
			t.Cleanup(func() { closeGroup(t, group) })
			name := strings.Repeat("/ü", 1024/3)
			q, err := group.Get(t.Context(), name)
			require.NoError(t, err)
			var ids []string
			for n := range 3 {
				// Quotes are escaped in JSON, and slashes in URLs.
				j := newTask(fmt.Sprint(n, strings.Repeat(`"/ü`, (amboy.MaxIDLength-1)/4)), "alpha")
				j.SetScopes([]string{j.ID()})
				j.SetEnqueueAllScopes(true)
				j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
				require.NoError(t, q.Put(t.Context(), j))
				require.True(t, amboy.WaitJob(t.Context(), j, q))
				ids = append(ids, j.ID())
			}
			i, err := management.NewGroupInspector(group)
			require.NoError(t, err)
			for _, newest := range []bool{false, true} {
				var begins []string // of the IDs
				page := management.PageRequest{Limit: 1, Newest: newest}
				for {
					jobs, findErr := i.FindJobs(t.Context(), management.JobFilter{Queues: []string{name}}, page)
					require.NoError(t, findErr)
					for _, j := range jobs.Jobs {
						begins = append(begins, j.ID[:1])
					}
					if page.Cursor = jobs.Next; page.Cursor == "" {
						break
					}
				}
				assert.ElementsMatch(t, []string{"0", "1", "2"}, begins)
			}
			found, err := i.CountJobs(t.Context(), management.JobFilter{IDs: ids}, 10)
			require.NoError(t, err)
			assert.Equal(t, 3, found.Count)
		})
	}
}
