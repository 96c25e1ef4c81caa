package workq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/queue/driver"
)

// refusing is a store that takes no hand-backs while it refuses.
type refusing struct {
	driver.Driver
	refuses atomic.Bool
}

func (s *refusing) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	if s.refuses.Load() {
		return nil, errBroken
	}
	return s.Driver.Release(ctx, handBacks)
}

// The number of attempts was stored before each try to hand the job back, so that each failure of
// the store counted as another attempt, and the job failed for good.
func TestAnAttemptWasCountedTwiceAfterTheStoreFailed(t *testing.T) {
	store := &refusing{Driver: outsidetest.Memory(t)}
	synctest.Test(t, func(t *testing.T) {
		l := outsidetest.NewPipes()
		f := start(t, store, noOptions, l, l.Dial)
		c := f.connect()
		c.do(add(1, "q", 100, 3_600_000, "", "-max-attempts=2"), ok)
		c.do("lease q 0\r\n", job(1, "q", 100, ""))
		store.refuses.Store(true)
		time.Sleep(35 * time.Second) // longer than a call may take
		store.refuses.Store(false)
		c.do("lease q 60000\r\n", job(1, "q", 100, ""))
		values, _ := c.inspected(1)
		assert.Equal(t, "2", values["attempts"])
		f.close()
	})
}
