package pool

import (
	"context"

	"github.com/mongodb/amboy"
)

// noop is a runner without workers.
type noop struct{ lifecycle }

// NewNoop returns a runner that runs nothing, for a process that puts jobs into a queue
// that other processes run. Like any runner it needs a queue. It is safe for concurrent
// use.
func NewNoop() amboy.Runner { return &noop{} }

// Start fails without a queue, and with ErrClosed after Close. A second Start has no
// effect. It does not block, and starts no goroutine.
func (n *noop) Start(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, err := n.start()
	return err
}

// Close marks the runner as closed. It does not block.
func (n *noop) Close(context.Context) { n.close() }
