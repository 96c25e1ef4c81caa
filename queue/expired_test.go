package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// slowlyDecoded is a job that is decoded once decodeSlowly is closed.
type slowlyDecoded struct {
	job.Base `json:"job_base"`
}

var decodeSlowly chan struct{}

func init() {
	registry.AddJobType("slowly decoded", func() amboy.Job {
		return &slowlyDecoded{Base: job.Base{JobType: amboy.JobType{Name: "slowly decoded"}}}
	})
}

func (*slowlyDecoded) Run(context.Context) {}

func (j *slowlyDecoded) UnmarshalJSON([]byte) error {
	<-decodeSlowly
	j.SetID("expired")
	return nil
}

// The goroutine that had claimed an expired job decoded it, before it claimed others. A codec that asked a service for the
// key, or a job that was slow to decode, stopped all claims of its process.
func TestAnExpiredJobThatIsSlowToDecodeStoppedAllClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decodeSlowly = make(chan struct{})
		store := newSpy(newStore(t))
		store.durable = true
		q := startEngine(t, store, 3)
		defer q.Close(context.Background())
		slow := &slowlyDecoded{Base: job.Base{JobType: amboy.JobType{Name: "slowly decoded"}}}
		slow.SetID("expired")
		expired := recordOf(t, "", slow)
		expired.TimeInfo.DispatchBy = time.Now()
		pass(time.Second)
		claimed := false
		store.do(func(ctx context.Context, call string) error {
			if call != "Claim" || claimed {
				return nil
			}
			claimed = true
			_, err := store.Insert(ctx, []*driver.Record{expired})
			return errors.Join(err, q.Put(ctx, noop(t, "during the claim"))) // so that another claim follows
		})
		put(t, q, noop(t, "before"))
		pass(time.Minute)
		put(t, q, noop(t, "after"))
		pass(time.Minute)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "after").State)
		close(decodeSlowly)
		pass(time.Minute)
		r, err := store.Get(t.Context(), "", "expired")
		require.NoError(t, err)
		assert.Equal(t, amboy.StateExpired, driver.StateOf(r, time.Now()))
	})
}
