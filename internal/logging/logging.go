// Package logging writes the library's log messages. It is the one place that
// calls the logging library.
package logging

import (
	"context"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
)

// Error logs something that failed.
func Error(_ context.Context, fields message.Fields) { grip.Error(fields) }

// Warning logs something that is odd, and that the library coped with.
func Warning(_ context.Context, fields message.Fields) { grip.Warning(fields) }

// initialSender is the sender of a program that has not configured grip.
var initialSender = grip.GetSender()

// Debug logs what build returns, which is called only where debug messages are
// written: not by a program that has not configured grip, though the level that
// grip starts with, trace, would allow it. Two lines for each job are for those
// who ask for them.
func Debug(_ context.Context, build func() message.Fields) {
	sender := grip.GetSender()
	threshold := sender.Level().Threshold
	unconfigured := sender == initialSender && threshold == level.Trace
	if threshold <= level.Debug && !unconfigured {
		grip.Debug(build())
	}
}
