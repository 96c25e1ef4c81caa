package management

import (
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// WhatRefused is what an AuditEntry says that counts refused calls.
const WhatRefused = "refused"

// refusedCall is one of those that an entry counts.
type refusedCall struct {
	What  string `json:"what"`
	JobID string `json:"job_id,omitempty"`
	Error string `json:"error"`
}

const (
	// refusalTime is for how long refused calls are counted in one entry.
	refusalTime = time.Hour
	// maxRefusals is the number of entries that are counted in at a time.
	maxRefusals = 1000
)

// refusals counts the calls that were refused and have changed nothing, in one entry for
// each queue and each actor. An entry is written when its count doubles, so that many calls
// write little.
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

// add counts a call, at a time. It returns the entry, and whether it is to be written now.
func (r *refusals) add(by refusedBy, now time.Time) (entry refusedCalls, write bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[by]
	if e == nil || now.Sub(e.since).Abs() >= refusalTime {
		if len(r.entries) >= maxRefusals {
			clear(r.entries) // who comes again begins a new entry
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

// latest is the count of an entry of this process, which may not have been written; 0 for
// another entry.
func (r *refusals) latest(entry AuditEntry, note driver.Note) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[refusedBy{entry.Queue, entry.Actor}]; e != nil && e.key == note.Key {
		return e.count
	}
	return 0
}
