package queue_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/queue"
)

func ExampleNewLocalScopeManager() {
	scopes := queue.NewLocalScopeManager()
	fmt.Println(scopes.Acquire("backup", []string{"disk", "network"}))
	fmt.Println(scopes.Acquire("restore", []string{"cpu", "disk"}))
	fmt.Println(scopes.ReleaseAndAcquire("backup", []string{"disk"}, "restore", []string{"cpu", "disk"}))
	fmt.Println(scopes.Release("backup", []string{"disk"}))
	// Output:
	// <nil>
	// enqueue scope "disk" of job "restore" is held by job "backup"
	// <nil>
	// releasing scope "disk" for "backup": it is held by "restore"
}

func TestScopeManagerRefuses(t *testing.T) {
	scopes := queue.NewLocalScopeManager()
	require.Error(t, scopes.Acquire("", []string{"s"}))
	require.Error(t, scopes.Release("a", []string{""}))
	require.Error(t, scopes.ReleaseAndAcquire("a", nil, "", []string{"s"}))
	require.NoError(t, scopes.Acquire("a", []string{"s"}))
	assert.True(t, amboy.IsDuplicateJobScopeError(scopes.Acquire("b", []string{"s"})))
}

// Such jobs wait for each other, but not for ever, so Put must not refuse them.
func TestAJobTakesAScopeThatAJobWithADeadlineNeedsOnWhichItDepends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, newStore(t), 1)
		defer q.Close(t.Context())
		late, instead := noop(t, "late"), noop(t, "instead")
		late.SetScopes([]string{"account"})
		late.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Hour)})
		instead.SetScopes([]string{"account"})
		instead.SetEnqueueAllScopes(true)
		require.NoError(t, instead.Dependency().AddEdge("late"))
		instead.Dependency().(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
		require.NoError(t, q.PutMany(t.Context(), []amboy.Job{late, instead}))
		require.True(t, amboy.WaitJob(day(t), instead, q))
		assert.Equal(t, amboy.StateExpired, infoOf(t, q, "late").State)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "instead").State)
	})
}

func TestScopeHasOneHolderAtATime(t *testing.T) {
	const owners, rounds = 8, 200
	scopes := queue.NewLocalScopeManager()
	pair := []string{"left", "right"}
	var holders atomic.Int32
	var all sync.WaitGroup
	for i := range owners {
		owner := fmt.Sprint("owner-", i)
		all.Go(func() {
			for range rounds {
				if scopes.Acquire(owner, pair[:1+i%2]) != nil {
					continue
				}
				alone := holders.Add(1) == 1
				err := scopes.ReleaseAndAcquire(owner, pair[:1+i%2], owner, pair[:1])
				holders.Add(-1)
				assert.True(t, alone, "another owner holds the scope too")
				assert.NoError(t, errors.Join(err, scopes.Release(owner, pair)))
			}
		})
	}
	all.Wait()
	assert.NoError(t, scopes.Acquire("last", pair))
}
