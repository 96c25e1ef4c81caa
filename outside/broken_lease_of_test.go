package outside_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/aside"
	"github.com/mongodb/amboy/outside"
)

// The worker kept the turn to ask the store, so that others that asked for the same got no jobs.
func TestAWorkerWhoseLeaseOfBrokeKeptOthersWaiting(t *testing.T) {
	for name, breakNow := range map[string]func(){"panics": func() { panic("it is broken") }, "exits": runtime.Goexit} {
		for _, small := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inMemory(t, noOptions, func(f *fixture) {
					ctx := f.ctx
					if small {
						ctx = aside.Small(ctx)
					}
					go func() {
						defer func() { _ = recover() }()
						_, _ = f.dispatcher.Lease(ctx, outside.LeaseRequest{
							Queues: []string{queueName}, Types: []string{typeName}, Wait: time.Minute, Lease: time.Second,
							LeaseOf: func(outside.Job) time.Duration {
								breakNow()
								return 0
							},
						})
					}()
					synctest.Wait()
					f.put("one", `{}`)
					synctest.Wait()
					leased, err := f.dispatcher.Lease(ctx, outside.LeaseRequest{
						Queues: []string{queueName}, Types: []string{typeName}, Wait: outside.MaxWait,
					})
					require.NoError(f, err)
					assert.Len(f, leased, 1)
				})
			})
		}
	}
}
