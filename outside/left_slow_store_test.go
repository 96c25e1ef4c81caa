package outside_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// The jobs stayed leased for as long as the lease, although no worker had them.
func TestJobsWereLeasedToACallerThatHadLeftASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowClaims{Driver: stores["memory"](t)()}
		f := newFixture(t, t.Context(), func() driver.Driver { return store }, noOptions)
		f.put("a", `1`)
		store.late.Store(int64(11 * time.Second))
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		req := request()
		req.Lease = outside.MaxLease
		_, err := f.dispatcher.Lease(ctx, req)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []string{"a"}, ids(f.lease(1)))
		f.close()
	})
}
