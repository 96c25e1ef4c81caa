package queue_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
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
