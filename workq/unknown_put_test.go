package workq_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/queue/driver"
)

// vague is a store that puts the first job, but does not say so.
type vague struct {
	driver.Driver
	clear atomic.Bool
}

func (s *vague) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	errs, err := s.Driver.Insert(ctx, records)
	if err == nil && s.clear.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, errBroken)
	}
	return errs, err
}

// If the store failed after it had put a job, the server did not remove the job at the end of its time
// to live.
func TestAJobWasNeverRemovedAfterAFailureOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &vague{Driver: outsidetest.Memory(t)}
		l := outsidetest.NewPipes()
		f := start(t, store, noOptions, l, l.Dial)
		f.connect().do(add(1, "q", 1000, 2000, ""), "-SERVER-ERROR Read-only mode triggered by cmdlog circuit breaker\r\n")
		time.Sleep(time.Minute)
		page, err := store.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 1})
		if err != nil || len(page.Records) > 0 {
			t.Errorf("the job is still stored: %v %v", page.Records, err)
		}
		f.close()
	})
}
