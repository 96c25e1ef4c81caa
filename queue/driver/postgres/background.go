package postgres

import (
	"context"
	"sync"
	"time"
)

// backgroundTime bounds each transaction of a background goroutine, whose connection may be dead without
// an error.
const backgroundTime = 5 * time.Second

// background holds goroutines that end when the driver is closed. They are started under mu, and not after
// ctx has ended.
type background struct {
	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup
	mu   sync.Mutex
}

func (b *background) init() { b.ctx, b.stop = context.WithCancel(context.Background()) }

func (b *background) close() {
	b.mu.Lock()
	b.stop()
	b.mu.Unlock()
	b.all.Wait()
}
