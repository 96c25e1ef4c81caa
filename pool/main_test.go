package pool_test

import (
	"os"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// grip logs debug messages by default; services turn them off.
	if err := grip.GetSender().SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Info}); err != nil {
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
