package management

import (
	"context"

	"github.com/mongodb/amboy/queue/driver"
)

// HiddenEncrypted is the reason for which the arguments and the result of an encrypted job are
// hidden (see Job.Encrypted).
const HiddenEncrypted = "encrypted"

type revealKey struct{}

// WithReveal returns a context with which Inspector.Job shows the arguments and results of
// encrypted jobs. It needs a process in which the queue has its codec (see
// queue.DriverQueueOptions). A client of package rest ignores it: the server decides.
func WithReveal(ctx context.Context) context.Context {
	return context.WithValue(ctx, revealKey{}, true)
}

// reveals reports whether ctx is one of WithReveal.
func reveals(ctx context.Context) bool { return ctx.Value(revealKey{}) != nil }

// revealed returns a record that can be read, or nil and the reason why it is hidden.
func (i *inspector) revealed(ctx context.Context, r *driver.Record) (readable *driver.Record, hidden string) {
	if !isEncrypted(r) {
		return r, ""
	}
	if !reveals(ctx) {
		return nil, HiddenEncrypted
	}
	readable, err := i.store.Decode(r)
	if err != nil {
		return nil, HiddenEncrypted + ", and " + err.Error()
	}
	return readable, ""
}

func isEncrypted(r *driver.Record) bool {
	return r.Job.IsSealed() || (r.Result != nil && r.Result.IsSealed())
}
