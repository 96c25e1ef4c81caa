package outside_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
)

// A worker could change the job in its token, and so end a job that another worker had.
func TestAWorkerMadeTheTokenOfAnotherJob(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("job-a", `1`)
		f.put("job-b", `1`)
		a, b := f.leaseOne(), f.leaseOne()
		form, err := base64.RawURLEncoding.DecodeString(string(a.Token))
		require.NoError(f, err)
		form = bytes.ReplaceAll(form, []byte(a.ID), []byte(b.ID))
		forged := outside.Token(base64.RawURLEncoding.EncodeToString(form))
		require.ErrorIs(f, f.ack(outside.Ack{Token: forged, Complete: &outside.Complete{}}), outside.ErrBadToken)
		require.ErrorIs(f, f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: forged})[0].Err, outside.ErrBadToken)
		f.hasState(b.ID, amboy.StateRunning)
		require.NoError(f, f.complete(a, ``))
		require.NoError(f, f.another().complete(b, ``))
	})
}
