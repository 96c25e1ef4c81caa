package shells_test

import (
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	quiet := send.LevelInfo{Default: level.Info, Threshold: level.Emergency}
	if err := grip.GetSender().SetLevel(quiet); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
