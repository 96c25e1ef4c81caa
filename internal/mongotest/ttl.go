package mongotest

import (
	"math"
	"time"

	"go.mongodb.org/mongo-driver/bson/primitive"
)

// Expire deletes the documents that TTL indexes expire by now, and returns their number.
// Servers do so once a minute; here only the test triggers it. Documents that a
// transaction is writing are left for the next call. See
// https://www.mongodb.com/docs/manual/core/index-ttl/.
func (s *Server) Expire(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	deleted := 0
	for _, c := range s.collections {
		for _, x := range c.indexes {
			if x.expireAfter != nil {
				deleted += s.expire(c, x, now)
			}
		}
	}
	return deleted
}

// expire deletes the documents with a past date in a TTL index.
func (s *Server) expire(c *collection, x *index, now time.Time) int {
	tx := s.begin(true)
	defer s.commit(tx)
	deadline := now.Add(-time.Duration(*x.expireAfter) * time.Second)
	past := keyRange{
		from: entry{[]any{primitive.DateTime(math.MinInt64)}, firstRecord},
		to:   entry{[]any{primitive.NewDateTimeFromTime(deadline)}, lastRecord},
	}
	if x.fields[0].descending {
		past.from.key, past.to.key = past.to.key, past.from.key
	}
	var expired []*record
	x.walk(past, false, func(e entry) bool {
		if !e.record.changing() && x.document(tx, e) != nil {
			expired = append(expired, e.record)
		}
		return true
	})
	deleted := 0
	for _, r := range expired {
		if r.visible(tx) == nil { // an array has several dates
			continue
		}
		if err := c.write(tx, r, nil, "delete"); err == nil {
			deleted++
		}
	}
	return deleted
}
