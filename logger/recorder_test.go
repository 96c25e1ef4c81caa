package logger_test

import (
	"context"
	"sync"
	"testing"

	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/require"
)

// recorder is a sender that records its calls, in order.
type recorder struct {
	*send.Base

	// If gate is not nil, it is received from before each message is sent.
	gate               chan struct{}
	flushErr, closeErr error

	mu     sync.Mutex
	calls  []string
	errors []error
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{Base: send.NewBase("recorder")}
	require.NoError(t, r.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Info}))
	require.NoError(t, r.SetErrorHandler(func(_ context.Context, err error, m message.Composer) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errors = append(r.errors, err)
		r.calls = append(r.calls, "error for "+m.String())
	}))
	return r
}

func (r *recorder) record(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *recorder) recorded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

func (r *recorder) handled() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.errors...)
}

func (r *recorder) Send(ctx context.Context, m message.Composer) {
	if r.gate != nil {
		<-r.gate
	}
	if ctx.Err() != nil {
		r.record("context has ended for " + m.String())
		return
	}
	r.record(m.String())
}

func (r *recorder) Flush(context.Context) error {
	r.record("flush")
	return r.flushErr
}

func (r *recorder) Close() error {
	r.record("close")
	return r.closeErr
}

func info(text string) message.Composer { return message.NewDefaultMessage(level.Info, text) }
