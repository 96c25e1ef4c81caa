package benchmarks

import (
	"time"

	"github.com/panjf2000/ants/v2"
)

// antsPool is a pool of github.com/panjf2000/ants.
type antsPool struct{ *ants.Pool }

func startAntsPool(workers int) (workerPool, error) {
	p, err := ants.NewPool(workers)
	return antsPool{p}, err
}

func (p antsPool) submit(task func()) error { return p.Submit(task) }

func (p antsPool) close() error { return p.ReleaseTimeout(time.Minute) }
