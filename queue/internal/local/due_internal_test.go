package local

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// The lock is released in between, and what is left becomes ready, or expires, all the same.
func TestManyJobsThatAreDueAtOnceAllRun(t *testing.T) {
	for _, paused := range []bool{false, true} { // paused jobs expire
		t.Run(fmt.Sprint("paused ", paused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const many = 2500
				q := New(Options{NumWorkers: 2, KeepFinished: many}, nil)
				require.NoError(t, q.Start(t.Context()))
				defer q.Close(context.Background())
				if paused {
					require.NoError(t, q.Pause(t.Context()))
				}
				at := time.Now().Add(time.Minute)
				jobs := make([]amboy.Job, many)
				for i := range jobs {
					j := &again{runs: 1}
					j.SetID(fmt.Sprint(i))
					if paused {
						j.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: at})
					} else {
						j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: at})
					}
					jobs[i] = j
				}
				require.NoError(t, q.PutMany(t.Context(), jobs))
				require.True(t, q.WaitComplete(t.Context()))
				assert.Less(t, time.Since(at), time.Second)
			})
		})
	}
}
