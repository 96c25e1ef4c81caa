package queue

import (
	"hash/maphash"
	"sync/atomic"
)

// localTaken finds the entries that workers have taken, without the lock of the queue,
// for which each start and end of a run would have to wait. It may miss some: an entry
// gives way to the next in the same slot. Who changes it holds the lock. The zero value
// is empty.
type localTaken struct {
	slots [64]atomic.Pointer[localEntry]
}

var takenSeed = maphash.MakeSeed()

func (t *localTaken) slot(id string) *atomic.Pointer[localEntry] {
	return &t.slots[maphash.String(takenSeed, id)%uint64(len(t.slots))]
}

func (t *localTaken) add(e *localEntry) { t.slot(e.ID).Store(e) }

// remove is called when the attempt of an entry has ended.
func (t *localTaken) remove(e *localEntry) { t.slot(e.ID).CompareAndSwap(e, nil) }

// get returns the entry with that ID, which is Running; nil where there is none, or it
// is missed.
func (t *localTaken) get(id string) *localEntry {
	if e := t.slot(id).Load(); e != nil && e.ID == id {
		return e
	}
	return nil
}
