package mongotest

import (
	"math"
	"time"

	"go.mongodb.org/mongo-driver/bson/primitive"
)

// Expire deletes the documents that the TTL indexes let expire by now, and
// returns how many they are. Servers do so once a minute; here it happens when
// a test says so. What a transaction is writing is left for the next call. See
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

// expire deletes the documents that have a date in an index that is past.
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
