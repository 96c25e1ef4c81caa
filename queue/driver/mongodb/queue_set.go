package mongodb

import (
	"sync"

	"go.mongodb.org/mongo-driver/bson"
)

// queueSet is the set of queues that this process has claimed from.
type queueSet struct{ all sync.Map }

// add adds a name, and reports whether it is new.
func (s *queueSet) add(name string) bool {
	_, known := s.all.LoadOrStore(name, true)
	return !known
}

func (s *queueSet) names() bson.A {
	var names bson.A
	for name := range s.all.Range {
		names = append(names, name)
	}
	return names
}
