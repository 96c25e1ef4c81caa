package local

import (
	"hash/maphash"
	"sync/atomic"
)

// localTaken finds entries that workers have taken without the lock of the queue, so that
// the start and end of runs do not contend for it. It may miss an entry: a newer entry in
// the same slot replaces it. Callers of add and remove hold the lock. The zero value is
// empty.
type localTaken struct {
	slots [64]atomic.Pointer[localEntry]
}

var takenSeed = maphash.MakeSeed()

func (t *localTaken) slot(id string) *atomic.Pointer[localEntry] {
	return &t.slots[maphash.String(takenSeed, id)%uint64(len(t.slots))]
}

func (t *localTaken) add(e *localEntry) { t.slot(e.ID).Store(e) }

// remove removes an entry whose attempt has ended.
func (t *localTaken) remove(e *localEntry) { t.slot(e.ID).CompareAndSwap(e, nil) }

// get returns the running entry with that ID. It returns nil if there is none, or if it
// was replaced.
func (t *localTaken) get(id string) *localEntry {
	if e := t.slot(id).Load(); e != nil && e.ID == id {
		return e
	}
	return nil
}
