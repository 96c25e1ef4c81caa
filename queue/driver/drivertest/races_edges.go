package drivertest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

func raceInsertOrEnd(f *fixture) {
	for round := range rounds {
		edge, id := fmt.Sprint("edge-", round), fmt.Sprint("job-", round)
		f.insert(spec{id: edge})
		r := f.claimOne(edge)
		errs := f.together(
			func() error {
				return every(f.driver.Complete(f.ctx, []driver.Completion{{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded)}}))
			},
			func() error {
				return every(f.driver.Insert(f.ctx, []*driver.Record{f.record(spec{id: id, edges: []string{edge}})}))
			},
		)
		require.Equal(f, []error{nil, nil}, errs)
		job := f.claimOne(id)
		require.Empty(f, job.Dependency.Failed)
		f.end(job, amboy.StateSucceeded)
	}
}

func raceRestartOrEdgeEnds(f *fixture) {
	for round := range rounds {
		edge, id := fmt.Sprint("edge-", round), fmt.Sprint("job-", round)
		f.insert(spec{id: edge}, spec{id: id, edges: []string{edge}})
		f.cancel(id)
		r := f.claimOne(edge)
		errs := f.together(f.completing(r, amboy.StateFailed), f.acting(driver.Restart, id))
		require.Equal(f, []error{nil, nil}, errs)
		job := f.claimOne(id)
		require.Equal(f, []string{edge}, job.Dependency.Failed)
		f.end(job, amboy.StateSucceeded)
	}
}

func raceInsertOrRetry(f *fixture) {
	for round := range rounds {
		edge, id := fmt.Sprint("edge-", round), fmt.Sprint("job-", round)
		r := f.retrying(spec{id: edge})
		errs := f.together(
			func() error { return f.driver.Retry(f.ctx, endedRetry(r, amboy.StateFailed), nextAttempt(r)) },
			func() error {
				return every(f.driver.Insert(f.ctx, []*driver.Record{f.record(spec{id: id, edges: []string{edge}})}))
			},
		)
		require.Equal(f, []error{nil, nil}, errs)
		f.end(f.claimOne(edge), amboy.StateSucceeded)
		job := f.claimOne(id)
		require.Empty(f, job.Dependency.Failed)
		f.end(job, amboy.StateSucceeded)
	}
}
