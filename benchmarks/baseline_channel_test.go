package benchmarks

import "sync"

// channelPool is a buffered channel with consumers: the minimum cost of a pool of workers in
// one process.
type channelPool struct {
	tasks   chan func()
	workers sync.WaitGroup
}

func startChannelPool(workers int) (workerPool, error) {
	p := &channelPool{tasks: make(chan func(), 1024)}
	for range workers {
		p.workers.Go(func() {
			for task := range p.tasks {
				task()
			}
		})
	}
	return p, nil
}

func (p *channelPool) submit(task func()) error {
	p.tasks <- task
	return nil
}

func (p *channelPool) close() error {
	close(p.tasks)
	p.workers.Wait()
	return nil
}
