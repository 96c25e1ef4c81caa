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

// Debug logs what build returns, which is called only where debug messages are
// written.
func Debug(_ context.Context, build func() message.Fields) {
	if grip.GetSender().Level().Threshold <= level.Debug {
		grip.Debug(build())
	}
}
