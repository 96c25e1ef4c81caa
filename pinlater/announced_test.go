package pinlater_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Clients that announced frames of 64 KiB each, and sent nothing, made the server take as much memory for
// each connection.
func TestAnnouncedFramesTookMemory(t *testing.T) {
	f := overTCP(t, noOptions)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const clients = 200
	for range clients {
		_, err := f.dial().Write([]byte{0, 0, 0xff, 0xff, 0x80})
		require.NoError(t, err)
	}
	f.createQueue("more") // the server serves the others
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(clients*(24<<10))) //nolint:gosec // They fit.
}
