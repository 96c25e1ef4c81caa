package outside_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
)

// Some stores refused the whole end with an error of their own.
func TestAWorkerCouldSetAKeyOfMetadataThatNotAllStoresKeep(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", "1")
		j := f.leaseOne()
		var invalid *outside.InvalidError
		require.ErrorAs(f, f.ack(outside.Ack{Token: j.Token, Complete: &outside.Complete{}, Metadata: map[string]string{"k\x00": "v"}}), &invalid)
		assert.Equal(f, outside.InvalidError{Field: "metadata key", Value: "k\x00", Rule: "must be UTF-8 without zero bytes"}, *invalid)
		f.hasState("a", amboy.StateRunning)
		require.NoError(f, f.complete(j, ""))
	})
}
