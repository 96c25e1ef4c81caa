package benchmarks

import (
	"container/heap"
	"sync"
)

// heapPool is a mutex around container/heap with consumers: the minimum cost of a queue with
// priorities.
type heapPool struct {
	mu      sync.Mutex
	ready   *sync.Cond
	tasks   taskHeap
	arrived int
	closed  bool
	workers sync.WaitGroup
}

func startHeapPool(workers int) (workerPool, error) {
	p := &heapPool{}
	p.ready = sync.NewCond(&p.mu)
	for range workers {
		p.workers.Go(p.work)
	}
	return p, nil
}

func (p *heapPool) work() {
	for task := p.next(); task != nil; task = p.next() {
		task.run()
	}
}

// next waits for a task. It returns nil if no more will come.
func (p *heapPool) next() *heapTask {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.tasks) == 0 {
		if p.closed {
			return nil
		}
		p.ready.Wait()
	}
	return heap.Pop(&p.tasks).(*heapTask)
}

func (p *heapPool) submit(task func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived++
	heap.Push(&p.tasks, &heapTask{arrival: p.arrived, run: task})
	p.ready.Signal()
	return nil
}

func (p *heapPool) close() error {
	p.mu.Lock()
	p.closed = true
	p.ready.Broadcast()
	p.mu.Unlock()
	p.workers.Wait()
	return nil
}

type heapTask struct {
	priority int
	arrival  int
	run      func()
}

// taskHeap sorts tasks by priority, largest first, and then by arrival.
type taskHeap []*heapTask

func (h taskHeap) Len() int { return len(h) }

func (h taskHeap) Less(i, j int) bool {
	if h[i].priority != h[j].priority {
		return h[i].priority > h[j].priority
	}
	return h[i].arrival < h[j].arrival
}

func (h taskHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *taskHeap) Push(task any) { *h = append(*h, task.(*heapTask)) }

func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	task := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return task
}
