// Package logtest keeps the log of tests out of their output.
package logtest

import (
	"fmt"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
)

// Silence makes the process log nothing, since tests provoke most of what there is to
// log. It is called by TestMain. It panics if the level can't be set.
func Silence() {
	nothing := send.LevelInfo{Default: level.Info, Threshold: level.Emergency}
	if err := grip.GetSender().SetLevel(nothing); err != nil {
		panic(fmt.Errorf("silencing the log: %w", err))
	}
}
