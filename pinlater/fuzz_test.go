package pinlater_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/pinlater"
)

// FuzzServer sends a frame with any content. The server must not panic, must answer or close
// the connection, must not use more memory than the frame justifies, and must go on to serve
// others.
func FuzzServer(f *testing.F) {
	for _, text := range []string{
		handshake, getQueueNames, oldQueueNames, withoutSource, withoutContext,
		"80010001 0000000b 656e71756575654a6f6273 00000001 0c0001 0b0001 00000004 74657374 00 0c0002 0b0001 00000004 6d61696c 0f0002 0c 00000001 0b0001 00000001 61 00 00 00",                               // enqueueJobs
		"80010001 0000000b 646571756575654a6f6273 00000001 0c0001 0b0001 00000004 74657374 00 0c0002 0b0001 00000004 6d61696c 080002 00000001 00 00",                                                        // dequeueJobs
		"80010001 0000000f 61636b44657175657565644a6f6273 00000001 0c0001 0b0001 00000004 74657374 00 0c0002 0b0001 00000004 6d61696c 0f0002 0c 00000001 0b0001 0000000c 6d61696c3a73313a70313a31 00 00 00", // ackDequeuedJobs
		"80010001 00000008 7363616e4a6f6273 00000001 0c0001 0b0001 00000004 74657374 00 0c0002 0b0001 00000004 6d61696c 080002 00000000 0b0007 00000002 612a 00 00",                                         // scanJobs
	} {
		f.Add(unhex(f, text))
	}
	server := newFixtureOn(f, stores["memory"](f), pinlater.Options{}, outsidetest.NewPipes())
	server.createQueue(mail)
	f.Fuzz(func(t *testing.T, message []byte) {
		if len(message) == 0 || len(message) > 1<<16 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		conn := server.dialFor(t)
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		if reply := tryExchange(t, conn, framed(message)); reply != nil {
			assert.False(t, bytes.Contains(reply, []byte("the call has panicked")), "%s", reply)
			require.NotNil(t, tryExchange(t, conn, framed(unhex(t, withoutContext))))
		}
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20+200*len(message)))
	})
}

// tryExchange sends a request, and returns the reply; nil if the connection is closed.
func tryExchange(t *testing.T, conn net.Conn, request []byte) []byte {
	t.Helper()
	if _, err := conn.Write(request); errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	header := make([]byte, 4)
	if _, err := io.ReadFull(conn, header); errors.Is(err, io.EOF) {
		return nil
	}
	reply := make([]byte, binary.BigEndian.Uint32(header))
	_, err := io.ReadFull(conn, reply)
	require.NoError(t, err)
	return reply
}
