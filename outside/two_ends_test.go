package outside_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
)

// Of two ends of a job in one call, both were answered as stored.
func TestTwoEndsOfAJobInACall(t *testing.T) {
	onEach(t, func(f *fixture) {
		for i := range 20 {
			id := string(rune('a' + i))
			f.put(id, `1`)
			j := f.leaseOne()
			errs := f.dispatcher.Acknowledge(f.ctx,
				outside.Ack{Token: j.Token, Complete: &outside.Complete{}},
				outside.Ack{Token: j.Token, Fail: &outside.Fail{Error: "no", Permanent: true}})
			require.NoError(f, errs[0])
			require.Error(f, errs[1])
			f.hasState(id, amboy.StateSucceeded)
		}
	})
}
