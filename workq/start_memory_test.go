package workq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/queue/driver"
)

// weighed is a store that notes the largest page that was read, in bytes of payloads.
type weighed struct {
	driver.Driver
	largest atomic.Int64
}

func (s *weighed) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	found, err := s.Driver.Find(ctx, q, page)
	size := 0
	for _, r := range found.Records {
		size += len(r.Job.Raw())
	}
	s.largest.Store(max(s.largest.Load(), int64(size)))
	return found, err
}

// A server read a thousand jobs at a time when it started, with payloads and results of up to a MiB each.
func TestAStartReadAGigabyteAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := keptOpen{outsidetest.Memory(t)}
		l := outsidetest.NewPipes()
		f := start(t, store, noOptions, l, l.Dial)
		c := f.connect()
		const number, size = 300, 1000
		for i := range number {
			c.do(add(i+1, "q", 1000, 60_000, string(make([]byte, size))), ok)
		}
		f.close()
		again := &weighed{Driver: store}
		l = outsidetest.NewPipes()
		f = start(t, again, noOptions, l, l.Dial)
		synctest.Wait()
		assert.Positive(t, again.largest.Load())
		assert.Less(t, again.largest.Load(), int64(number*size/2))
		f.close()
	})
}
