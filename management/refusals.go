package management

import (
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// WhatRefused is the What of an AuditEntry that counts refused calls.
const WhatRefused = "refused"

// refusedCall is one of the calls that an entry counts, as an example.
type refusedCall struct {
	What  string `json:"what"`
	JobID string `json:"job_id,omitempty"`
	Error string `json:"error"`
}

const (
	// refusalTime is how long refused calls are counted in the same entry.
	refusalTime = time.Hour
	// maxRefusals is the maximum number of entries that are open at a time.
	maxRefusals = 1000
)

// refusals counts the refused calls, which changed nothing, in one entry for each queue and
// actor. An entry is written when its count reaches a power of two, so that many calls cause
// few writes.
type refusals struct {
	mu      sync.Mutex
	entries map[refusedBy]*refusedCalls
}

type refusedBy struct{ queue, actor string }

type refusedCalls struct {
	key   string // of the note
	since time.Time
	count int
}

// add counts a call. It returns the entry, and reports whether to write it now.
func (r *refusals) add(by refusedBy, now time.Time) (entry refusedCalls, write bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[by]
	if e == nil || now.Sub(e.since).Abs() >= refusalTime {
		if len(r.entries) >= maxRefusals {
			clear(r.entries) // the next call begins a new entry
		}
		if r.entries == nil {
			r.entries = map[refusedBy]*refusedCalls{}
		}
		e = &refusedCalls{key: auditKey(now), since: now}
		r.entries[by] = e
	}
	e.count++
	return *e, e.count&(e.count-1) == 0
}

// latest returns the current count of an entry of this process, which may not have been
// written yet; 0 for another entry.
func (r *refusals) latest(entry AuditEntry, note driver.Note) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[refusedBy{entry.Queue, entry.Actor}]; e != nil && e.key == note.Key {
		return e.count
	}
	return 0
}
