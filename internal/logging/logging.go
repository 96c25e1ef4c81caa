// Package logging writes the library's log messages. It is the one place that
// calls the logging library.
//
// A message is written with the values of the caller's context and without its
// end: most of what is said at shutdown is said after the context has ended.
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

// quietKey is the key of a mark in contexts.
type quietKey struct{}

// Quiet marks a context, so that nothing is logged under it. It is for the queue
// that carries log messages: a message about one of its jobs would be its next
// job, and grip may hold its lock while it waits for that queue.
func Quiet(ctx context.Context) context.Context {
	return context.WithValue(ctx, quietKey{}, true)
}

func isQuiet(ctx context.Context) bool { return ctx.Value(quietKey{}) != nil }

// Error logs something that failed.
func Error(ctx context.Context, fields message.Fields) {
	if !isQuiet(ctx) {
		grip.Error(context.WithoutCancel(ctx), safe(fields))
	}
}

// Warning logs something that is odd, and that the library coped with.
func Warning(ctx context.Context, fields message.Fields) {
	if !isQuiet(ctx) {
		grip.Warning(context.WithoutCancel(ctx), safe(fields))
	}
}

// DebugEnabled tells whether debug messages are written: where the threshold of
// grip's sender is debug. That of a program that has not set one is trace, under
// which grip would write two lines for each job; these are for those who ask for
// them.
func DebugEnabled(ctx context.Context) bool {
	if isQuiet(ctx) {
		return false // before grip's lock is needed
	}
	threshold := grip.GetSender().Level().Threshold
	return threshold <= level.Debug && threshold != level.Trace
}

// Debug logs what build returns, which is called only where debug messages are
// written.
func Debug(ctx context.Context, build func() message.Fields) {
	if DebugEnabled(ctx) {
		grip.Debug(context.WithoutCancel(ctx), safe(build()))
	}
}

// safe has all texts of a message in one line each, but for stacks, whose lines are
// indented: what a job says of itself must not look like a line of the log.
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
			return strings.ReplaceAll(printable.Lines(v), "\n", "\n    ")
		}
		return printable.Text(v)
	case []string:
		clean := make([]string, len(v))
		for i, text := range v {
			clean[i] = printable.Text(text)
		}
		return clean
	case error, fmt.Stringer:
		return printable.Text(fmt.Sprint(v))
	}
	switch reflect.ValueOf(value).Kind() {
	case reflect.Invalid, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return value
	default: // the value of a panic, for instance
		return printable.Text(fmt.Sprint(value))
	}
}
