package pinlater_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// The error quoted the request: a client in Python, which decodes texts strictly, could read neither the reply nor any
// after it.
func TestTheErrorOfACallWithATextThatIsNotUTF8WasNoTextEither(t *testing.T) {
	f := overTCP(t, pinlater.Options{})
	pattern := "a\xff"
	matching := countRequest(pending)
	matching.BodyRegexToMatch = &pattern
	elsewhere := countRequest(pending)
	elsewhere.QueueName = "a\xff"
	for name, call := range map[string]func() error{
		"a name":             func() error { return f.client.CreateQueue(f.ctx, test, "a\xff") },
		"a name that is cut": func() error { return f.client.CreateQueue(f.ctx, test, "a"+strings.Repeat("é", 200)) },
		"an unknown queue":   func() error { _, err := f.client.GetJobCount(f.ctx, test, elsewhere); return err },
		"an expression":      func() error { _, err := f.client.GetJobCount(f.ctx, test, matching); return err },
		"a descriptor":       func() error { return f.client.AckDequeuedJobs(f.ctx, test, succeeded("a\xff")) },
	} {
		t.Run(name, func(t *testing.T) {
			var refused *wire.PinLaterException
			require.ErrorAs(t, call(), &refused)
			assert.True(t, utf8.ValidString(refused.Message), "%q", refused.Message)
		})
	}
}
