package management_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// shop has the job "pay", which fails while broken, and "ship", which depends on it, and "mail",
// which depends on "ship". All have failed, and the queue is paused.
type shop struct {
	*inspected
	broken atomic.Bool
	mu     sync.Mutex
	ran    []string
}

func newShop(f *inspected) *shop {
	s := &shop{inspected: f}
	s.broken.Store(true)
	step := func(id string, after ...string) *task {
		j := doing(f.T, id, "alpha", func(_ context.Context, j *task) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ran = append(s.ran, id)
			if id == "pay" && s.broken.Load() {
				j.AddError(assert.AnError)
			}
		})
		for _, edge := range after {
			require.NoError(f, j.Dependency().AddEdge(edge))
		}
		return j
	}
	f.put(step("pay"), step("ship", "pay"), step("mail", "ship"))
	f.wait("pay", "ship", "mail")
	s.wants("pay")
	s.pause(true)
	return s
}

func (s *shop) pause(paused bool) {
	s.Helper()
	_, err := s.SetControl(s.ctx, s.name, management.ControlChange{Paused: &paused})
	require.NoError(s, err)
}

// wants requires that these jobs ran since it was last called, in their order.
func (s *shop) wants(ids ...string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(s, ids, s.ran)
	s.ran = nil
}

// retry retries jobs that ended, and then lets them run.
func (s *shop) retry(action management.Action, ids ...string) {
	s.Helper()
	action.Kind = management.Retry
	acted, err := s.Act(s.ctx, management.ActRequest{
		Action: action, Filter: management.JobFilter{IDs: ids, States: []amboy.JobState{amboy.StateFailed}}, Limit: 10,
	})
	require.NoError(s, err)
	require.Equal(s, management.Acted{Done: len(ids)}, acted)
	s.pause(false)
	s.wait(ids...)
	s.pause(true)
}

func TestRetriedJobRanBeforeTheJobThatItDependsOn(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofDatabase}, func(f *inspected) {
		s := newShop(f)
		s.broken.Store(false)
		s.retry(management.Action{}, "ship", "pay", "mail")
		s.wants("pay", "ship", "mail")
	})
}

// A job that was retried alone comes after the jobs that depend on it.
func TestJobWasRetriedBeforeAnOlderOneThatItDependsOn(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofDatabase}, func(f *inspected) {
		s := newShop(f)
		s.retry(management.Action{}, "ship")
		s.retry(management.Action{}, "pay")
		s.wants("pay")
		s.broken.Store(false)
		s.retry(management.Action{}, "pay", "ship", "mail")
		s.wants("pay", "ship", "mail")
	})
}

func TestRetriedJobRanAlthoughTheJobThatItDependsOnHadFailed(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofDatabase}, func(f *inspected) {
		s := newShop(f)
		s.retry(management.Action{}, "ship", "mail")
		s.wants()
		assert.Contains(f, lastError(f, "ship"), `not run because jobs that it depends on did not succeed: ["pay"]`)
		assert.Contains(f, lastError(f, "mail"), `not run because jobs that it depends on did not succeed: ["ship"]`)

		s.retry(management.Action{IgnoreDependencies: true}, "ship")
		s.wants("ship")
		s.retry(management.Action{}, "mail")
		s.wants("mail")
		assert.Equal(f, amboy.StateFailed, f.job("pay").State)
	})
}

// A job that was put under the ID of a removed one depends on a job that depended on that one.
func TestRetriedJobsThatNameEachOtherEnd(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		s := newShop(f)
		_, err := s.ActOn(s.ctx, s.name, "pay", management.Action{Kind: management.Delete})
		require.NoError(f, err)
		again := f.fail("pay", "alpha")
		require.NoError(f, again.Dependency().AddEdge("ship"))
		f.put(again)
		s.pause(false)
		s.wait("pay")
		s.pause(true)
		s.retry(management.Action{}, "pay", "ship")
		assert.Equal(f, amboy.StateFailed, f.job("pay").State)
		assert.Equal(f, amboy.StateFailed, f.job("ship").State)
	})
}

func lastError(f *inspected, id string) string {
	f.Helper()
	errs := f.job(id).Errors
	require.NotEmpty(f, errs)
	return errs[len(errs)-1].Error
}
