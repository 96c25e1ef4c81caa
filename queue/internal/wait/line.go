// Package wait provides a line in which goroutines wait to be woken, one at a time.
package wait

import (
	"context"
	"slices"
)

// Waiter is a waiting goroutine.
type Waiter struct {
	// woken is buffered for one signal, so that waking never blocks.
	woken chan struct{}
}

// Wake wakes the waiter, which must have been taken out of its line before. It does nothing
// if the waiter is nil. It is called without the line's lock.
func (w *Waiter) Wake() {
	if w != nil {
		w.woken <- struct{}{}
	}
}

// Wait waits for Wake, or returns the error of ctx when it ends.
func (w *Waiter) Wait(ctx context.Context) error {
	select {
	case <-w.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Drain receives a signal that was sent, or is about to be sent.
func (w *Waiter) Drain() { <-w.woken }

// Line is a line of goroutines that wait for the same thing. It is guarded by its owner's
// lock. The zero Line is empty.
type Line struct {
	waiting []*Waiter
	spare   []*Waiter
}

// Len returns the number of waiters in the line.
func (l *Line) Len() int { return len(l.waiting) }

// Join puts a waiter at the end of the line.
func (l *Line) Join() *Waiter {
	var w *Waiter
	if last := len(l.spare) - 1; last >= 0 {
		w = l.spare[last]
		l.spare[last] = nil
		l.spare = l.spare[:last]
	} else {
		w = &Waiter{woken: make(chan struct{}, 1)}
	}
	l.waiting = append(l.waiting, w)
	return w
}

// Reuse returns a woken waiter to the line, for the next goroutine that joins.
func (l *Line) Reuse(w *Waiter) { l.spare = append(l.spare, w) }

// TakeLast takes the waiter that came last, whose memory is warmest; nil if the line is
// empty.
func (l *Line) TakeLast() *Waiter {
	last := len(l.waiting) - 1
	if last < 0 {
		return nil
	}
	w := l.waiting[last]
	l.waiting[last] = nil
	l.waiting = l.waiting[:last]
	return w
}

// TakeFirst takes the waiter that came first; nil if the line is empty.
func (l *Line) TakeFirst() *Waiter {
	if len(l.waiting) == 0 {
		return nil
	}
	w := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	return w
}

// TakeAll takes all waiters.
func (l *Line) TakeAll() []*Waiter {
	all := l.waiting
	l.waiting = nil
	return all
}

// Leave removes a waiter that gives up. It returns false if the waiter was taken before: then
// a signal is on its way, and the caller must pass it on to another waiter.
func (l *Line) Leave(w *Waiter) bool {
	i := slices.Index(l.waiting, w)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.spare = append(l.spare, w)
	return true
}
