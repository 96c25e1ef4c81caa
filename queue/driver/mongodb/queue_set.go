package mongodb

import (
	"sync"

	"go.mongodb.org/mongo-driver/bson"
)

// queueSet is the set of queues that this process has claimed from.
type queueSet struct{ all sync.Map }

// add reports whether the name is new.
func (n *queueSet) add(name string) bool {
	_, there := n.all.LoadOrStore(name, true)
	return !there
}

func (n *queueSet) names() bson.A {
	var names bson.A
	for name := range n.all.Range {
		names = append(names, name)
	}
	return names
}
