package pinlater_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue/driver"
)

// unreadable is a store whose jobs can't be found while failing is true.
type unreadable struct {
	driver.Driver
	failing atomic.Bool
}

func (s *unreadable) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	if s.failing.Load() {
		return driver.Page{}, errors.New("the store is away")
	}
	return s.Driver.Find(ctx, q, page)
}

// A repetition did nothing, because the queue was no longer listed, and the jobs were there again
// when a queue of that name was made.
func TestADeleteQueueThatHadFailedHalfWayLeftItsJobs(t *testing.T) {
	store := &unreadable{Driver: stores["memory"](t)}
	f := newFixture(t, store, pinlater.Options{AdminPasswordHash: pinlater.PasswordHash("secret")})
	f.createQueue(mail)
	f.put("a")
	store.failing.Store(true)
	f.hasCode(f.client.DeleteQueue(f.ctx, test, mail, "secret"), wire.ErrorCode_UNKNOWN)
	store.failing.Store(false)
	require.NoError(t, f.client.DeleteQueue(f.ctx, test, mail, "secret"))
	f.createQueue(mail)
	assert.Zero(t, f.count(wire.PinLaterJobState_PENDING))
}
