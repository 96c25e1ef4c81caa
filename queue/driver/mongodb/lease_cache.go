package mongodb

import (
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// leases holds the leases that this driver gave, with the documents as they were then, so
// that completing one or handing it back does not have to read the document. Expired
// leases are dropped when there are many.
type leases struct {
	mu    sync.Mutex
	byKey map[key]*leased
	prune int // the number at which expired leases are dropped
	// claiming holds the leases that claims try to take, or may have taken.
	claiming map[driver.Lease]*claim
	// longest is the length of the longest lease so far.
	longest time.Duration
}

type leased struct {
	doc  *document // without its body
	ends time.Time
}

// pruneFrom is the number of leases below which expired ones are not dropped.
const pruneFrom = 1024

func (l *leases) add(doc *document, leaseTime time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey, l.prune = map[key]*leased{}, pruneFrom
	}
	now := time.Now() // with its monotonic reading
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

// of returns the document that was claimed under a lease, or nil if it is not known.
func (l *leases) of(lease driver.Lease) *document {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.find(lease)
}

// take is of, and forgets the lease.
func (l *leases) take(lease driver.Lease) *document {
	l.mu.Lock()
	defer l.mu.Unlock()
	doc := l.find(lease)
	if doc != nil {
		delete(l.byKey, key{lease.Queue, lease.Name})
	}
	return doc
}

// find is of with the lock held.
func (l *leases) find(lease driver.Lease) *document {
	known := l.byKey[key{lease.Queue, lease.Name}]
	if known == nil || known.doc.lease() != lease {
		return nil
	}
	return known.doc
}

// reserve lets a claim try to take a lease. It returns false if another claim tries, may have taken the lease, or
// has given it: that claim has the same owner, so that no document would show which of the two took the lease.
// isDoubt is true if the claim is to settle whether an earlier one, which has ended, took the lease.
func (l *leases) reserve(lease driver.Lease, c *claim, isDoubt bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	given := l.byKey[key{lease.Queue, lease.Name}]
	isGiven := given != nil && given.doc.lease() == lease && time.Now().Before(given.ends)
	if other, tries := l.claiming[lease]; isGiven || tries && other != c && !isDoubt {
		return false
	}
	if l.claiming == nil {
		l.claiming = map[driver.Lease]*claim{}
	}
	l.claiming[lease] = c
	return true
}

// release ends the reservations of leases.
func (l *leases) release(all ...driver.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range all {
		delete(l.claiming, lease)
	}
}

// given returns the lease of a document as this driver gave it. The document may have lost its order
// since (see document.shows).
func (l *leases) given(doc *document) driver.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byKey[key{doc.Group, doc.Name}]; known != nil && doc.shows(known.doc.lease()) {
		return known.doc.lease()
	}
	return doc.lease()
}

// longestTime returns the length of the longest lease that this driver gave.
func (l *leases) longestTime() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.longest
}

// extend records that leases were extended.
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
