package mongodb

import (
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// leases are those that this driver gave, with the documents as they were then,
// so that whoever ends one or hands it back need not read it. Those that ran out
// are dropped when there are many.
type leases struct {
	mu    sync.Mutex
	byKey map[key]*leased
	prune int // the number at which it is looked for those that ran out
	// longest is how long the longest of all lasted.
	longest time.Duration
}

type leased struct {
	doc  *document // without its body
	ends time.Time
}

// pruneFrom is the number of leases below which none is looked for that ran out.
const pruneFrom = 1024

func (l *leases) add(doc *document, leaseTime time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey, l.prune = map[key]*leased{}, pruneFrom
	}
	now := time.Now() // Its monotonic reading is what counts.
	l.byKey[key{doc.Group, doc.Name}] = &leased{doc: doc, ends: now.Add(leaseTime)}
	l.longest = max(l.longest, leaseTime)
	if len(l.byKey) < l.prune {
		return
	}
	for k, lease := range l.byKey {
		if lease.ends.Before(now) {
			delete(l.byKey, k)
		}
	}
	l.prune = max(pruneFrom, 2*len(l.byKey))
}

// take returns the document that was claimed under a lease, which is dropped; nil
// where it is not known.
func (l *leases) take(lease driver.Lease) *document {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := key{lease.Queue, lease.Name}
	known := l.byKey[k]
	if known == nil || known.doc.lease() != lease {
		return nil
	}
	delete(l.byKey, k)
	return known.doc
}

// longestTime is how long the longest of the leases lasted that this driver gave.
func (l *leases) longestTime() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.longest
}

// extend takes note of leases that last longer now.
func (l *leases) extend(extended []driver.Lease, leaseTime time.Duration) {
	until := time.Now().Add(leaseTime)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, leaseTime)
	for _, lease := range extended {
		if known := l.byKey[key{lease.Queue, lease.Name}]; known != nil && known.doc.lease() == lease {
			known.ends = until
		}
	}
}
