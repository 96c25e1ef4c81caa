package simulation

import (
	"container/heap"
	"time"
)

// happening is something that will happen.
type happening interface{ happen(w *World) }

// scheduled is a happening with its time.
type scheduled struct {
	at  time.Duration
	seq uint64
	// to is the process to which it happens, in one of its lives. It must not have been
	// killed since. While the process is suspended, the happening is deferred until it is
	// resumed. nil is for happenings to the store or the world.
	to   *process
	life int
	what happening
}

// agenda holds the scheduled happenings, ordered by time and then by arrival.
type agenda struct {
	all []*scheduled
	seq uint64
}

func (a *agenda) add(s *scheduled) {
	a.seq++
	s.seq = a.seq
	heap.Push(a, s)
}

func (a *agenda) next() *scheduled { return heap.Pop(a).(*scheduled) }

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (a *agenda) Len() int { return len(a.all) }

func (a *agenda) Less(i, j int) bool {
	if a.all[i].at != a.all[j].at {
		return a.all[i].at < a.all[j].at
	}
	return a.all[i].seq < a.all[j].seq
}
func (a *agenda) Swap(i, j int) { a.all[i], a.all[j] = a.all[j], a.all[i] }
func (a *agenda) Push(s any)    { a.all = append(a.all, s.(*scheduled)) }

func (a *agenda) Pop() any {
	last := len(a.all) - 1
	s := a.all[last]
	a.all[last] = nil
	a.all = a.all[:last]
	return s
}
