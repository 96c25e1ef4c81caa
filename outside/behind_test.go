package outside_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// A lease returned nothing although a job was ready, because the job before it may not run.
func TestAJobThatMayNotRunHidTheOneBehindIt(t *testing.T) {
	for name, prepare := range map[string]func(f *fixture){
		"interrupted too often": func(f *fixture) {
			f.put("a", `1`, job.Priority(1), job.MaxInterruptions(1))
			req := request()
			req.Lease = time.Second
			jobs, err := f.dispatcher.Lease(f.ctx, req)
			require.NoError(f, err)
			require.Equal(f, []string{"a"}, ids(jobs))
			time.Sleep(10 * time.Second)
			f.hasState("a", amboy.StatePending)
		},
		"expired": func(f *fixture) {
			f.put("a", `1`, job.Priority(1), job.DispatchBy(time.Now().Add(time.Second)))
			time.Sleep(2 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, noOptions, func(f *fixture) {
				prepare(f)
				f.put("b", `1`)
				assert.Equal(f, []string{"b"}, ids(f.lease(1)))
			})
		})
	}
}
