// Package logging writes the library's log messages. It is the only package that calls the
// logging library.
//
// A message is written with the values of the caller's context, but not its cancellation:
// most messages about a shutdown are written after the context has ended.
package logging

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/printable"
)

// quietKey is the context key that Quiet sets.
type quietKey struct{}

// Quiet returns a context under which nothing is logged. It is for the queue that
// transports log messages: a message about one of its jobs would become its next job, and
// grip may hold its lock while it waits for that queue.
func Quiet(ctx context.Context) context.Context {
	return context.WithValue(ctx, quietKey{}, true)
}

func isQuiet(ctx context.Context) bool { return ctx.Value(quietKey{}) != nil }

// Error logs a failure.
func Error(ctx context.Context, fields message.Fields) {
	if !isQuiet(ctx) {
		grip.Error(context.WithoutCancel(ctx), safe(fields))
	}
}

// Warning logs a problem from which the library recovered.
func Warning(ctx context.Context, fields message.Fields) {
	if !isQuiet(ctx) {
		grip.Warning(context.WithoutCancel(ctx), safe(fields))
	}
}

// DebugEnabled reports whether debug messages are written, which is the case if the
// threshold of grip's sender is debug. They are not written for the threshold trace: it is
// grip's default, so a program that sets none would write two lines for each job.
func DebugEnabled(ctx context.Context) bool {
	if isQuiet(ctx) {
		return false // without taking grip's lock
	}
	threshold := grip.GetSender().Level().Threshold
	return threshold <= level.Debug && threshold != level.Trace
}

// Debug logs the fields that build returns. It calls build only if debug messages are
// written.
func Debug(ctx context.Context, build func() message.Fields) {
	if DebugEnabled(ctx) {
		grip.Debug(context.WithoutCancel(ctx), safe(build()))
	}
}

// maxText is the maximum size, in bytes, of a text of a message.
const maxText = 64 << 10

// short truncates a text to maxText and notes its size.
func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes in all)", strings.ToValidUTF8(text[:maxText], ""), len(text))
}

// safe puts every text of a message on one line, except stacks, whose lines it indents: a
// text of a job must not look like a line of the log. Long texts are truncated.
func safe(fields message.Fields) message.Fields {
	clean := make(message.Fields, len(fields))
	for name, value := range fields {
		clean[name] = safeValue(name, value)
	}
	return clean
}

func safeValue(name string, value any) any {
	switch v := value.(type) {
	case string:
		if name == "stack" {
			return strings.ReplaceAll(printable.Lines(short(v)), "\n", "\n    ")
		}
		return printable.Text(short(v))
	case []string:
		clean := make([]string, len(v))
		for i, text := range v {
			clean[i] = printable.Text(short(text))
		}
		return clean
	case error, fmt.Stringer:
		return printable.Text(short(fmt.Sprint(v)))
	}
	switch reflect.ValueOf(value).Kind() {
	case reflect.Invalid, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return value
	default: // the value of a panic, for instance
		return printable.Text(short(fmt.Sprint(value)))
	}
}
