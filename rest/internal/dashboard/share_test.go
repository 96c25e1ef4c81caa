package dashboard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/dashboard"
)

func TestShareKeepsAnswersForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		shared := dashboard.Share(f)
		ask := func() {
			t.Helper()
			queues, err := shared.Queues(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, queues)
			queues[0].Name = "changed by a caller"
			_, err = shared.Activity(t.Context(), management.ActivityRequest{Last: time.Hour})
			require.NoError(t, err)
			_, err = shared.CountJobs(t.Context(), management.JobFilter{}, 1000)
			require.NoError(t, err)
			_, err = shared.CountStates(t.Context(), management.StateCountRequest{})
			require.NoError(t, err)
		}
		ask()
		ask()
		assert.Equal(t, 4, f.asked)
		queues, err := shared.Queues(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "billing", queues[0].Name)
		_, err = shared.Activity(t.Context(), management.ActivityRequest{Last: time.Hour, Queues: []string{"mail"}})
		require.NoError(t, err)
		assert.Equal(t, 5, f.asked, "another query")
		time.Sleep(time.Second + 1)
		ask()
		assert.Equal(t, 9, f.asked)
		_, err = shared.SetControl(t.Context(), "billing", management.ControlChange{})
		require.NoError(t, err)
		ask()
		assert.Equal(t, 13, f.asked, "a change clears the cache")
		_, err = shared.Act(t.Context(), management.ActRequest{DryRun: true, Limit: 1})
		require.NoError(t, err)
		ask()
		assert.Equal(t, 13, f.asked, "a dry run changes nothing")
	})
}

// waiting answers when the test says so.
type waiting struct {
	*fake
	answer chan error
}

func (w waiting) Queues(ctx context.Context) ([]management.Queue, error) {
	w.ask()
	select {
	case err := <-w.answer:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestShareQueriesOnceForConcurrentCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waiting{newFake(), make(chan error)}
		shared := dashboard.Share(w)
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			ctx := t.Context()
			if i == 0 {
				ctx = first
			}
			all.Go(func() { _, errs[i] = shared.Queues(ctx) })
			synctest.Wait()
		}
		leave() // the others still get the answer
		failed := errors.New("failed")
		w.answer <- failed
		all.Wait()
		for _, err := range errs[1:] {
			require.ErrorIs(t, err, failed)
		}
		assert.Equal(t, 1, w.asked)
		go func() { w.answer <- nil }()
		_, err := shared.Queues(t.Context())
		require.NoError(t, err, "an error must not be kept")
	})
}
