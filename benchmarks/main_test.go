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
	// Package ants starts goroutines when it is initialized.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// discardLogs discards log messages. Messages of level info and above are still built, as in a
// service, but no benchmark measures the terminal.
func discardLogs() error {
	sender := send.WrapWriterLogger(io.Discard)
	if err := grip.SetSender(sender); err != nil {
		return err
	}
	// SetSender sets the sender's level to that of the previous sender.
	return sender.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Info})
}
