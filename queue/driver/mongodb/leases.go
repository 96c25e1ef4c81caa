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
}

type leased struct {
	doc  *document // without its body
	ends time.Time
}

// pruneFrom is the number of leases below which none is looked for that ran out.
const pruneFrom = 1024

func (l *leases) add(doc *document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey, l.prune = map[key]*leased{}, pruneFrom
	}
	l.byKey[key{doc.Group, doc.Name}] = &leased{doc: doc, ends: doc.LeaseUntil}
	if len(l.byKey) < l.prune {
		return
	}
	now := time.Now()
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

// extend takes note of leases that last longer now.
func (l *leases) extend(extended []driver.Lease, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range extended {
		if known := l.byKey[key{lease.Queue, lease.Name}]; known != nil && known.doc.lease() == lease {
			known.ends = until
		}
	}
}
