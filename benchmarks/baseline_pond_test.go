package benchmarks

import "github.com/alitto/pond/v2"

// pondPool is a pool of github.com/alitto/pond.
type pondPool struct{ pond.Pool }

func startPondPool(workers int) (workerPool, error) { return pondPool{pond.NewPool(workers)}, nil }

func (p pondPool) submit(task func()) error { return p.Go(task) }

func (p pondPool) close() error {
	p.StopAndWait()
	return nil
}
