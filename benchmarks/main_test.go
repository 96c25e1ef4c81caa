package benchmarks

import (
	"io"
	"log"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if err := discardLogs(); err != nil {
		log.Fatal(err)
	}
	// The ants package starts goroutines of its own when it is loaded.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// discardLogs has messages of level info and above made, as in a service, but
// written nowhere, so that no benchmark measures the terminal.
func discardLogs() error {
	sender := send.WrapWriterLogger(io.Discard)
	if err := grip.SetSender(sender); err != nil {
		return err
	}
	// SetSender gives the sender the level of the one before.
	return sender.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Info})
}
