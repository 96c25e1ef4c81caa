// Package typelimit decides how many jobs of limited types a claim may start.
package typelimit

import (
	"maps"
	"math"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/rate"
)

// Buckets are the tokens of the types of a queue that have a rate. A missing one is new.
type Buckets map[string]rate.Bucket

// Keep removes the buckets of types whose limits have no rate.
func (b Buckets) Keep(limits map[string]amboy.TypeLimit) {
	for jobType := range b {
		if limits[jobType].Rate == nil {
			delete(b, jobType)
		}
	}
}

// Room is how many more jobs of limited types may start in a claim from one queue. A nil Room
// limits nothing.
type Room struct {
	limits  map[string]amboy.TypeLimit
	slots   map[string]int // of the types with MaxRunning
	tokens  map[string]int // of the types with a rate
	buckets Buckets
	now     int64
	started map[string]int
	// refused holds the types of which there are jobs that had no room.
	refused map[string]bool
}

// NewRoom returns the room of the types that have a limit; nil if there are none. running returns
// the number of running jobs of a type with MaxRunning. now is the time by the clock of the buckets.
func NewRoom(limits map[string]amboy.TypeLimit, running func(jobType string) int, buckets Buckets, now int64) *Room {
	if len(limits) == 0 {
		return nil
	}
	r := &Room{
		limits: limits, buckets: buckets, now: now,
		slots: map[string]int{}, tokens: map[string]int{}, started: map[string]int{}, refused: map[string]bool{},
	}
	for jobType, limit := range limits {
		if limit.MaxRunning > 0 {
			r.slots[jobType] = max(0, limit.MaxRunning-running(jobType))
		}
		if limit.Rate != nil {
			r.tokens[jobType] = r.bucket(jobType).Tokens(*limit.Rate, now)
		}
	}
	return r
}

// NoRoom returns a Room in which no job of a type with a limit may start.
func NoRoom(limits map[string]amboy.TypeLimit) *Room {
	r := &Room{limits: limits, slots: map[string]int{}, started: map[string]int{}, refused: map[string]bool{}}
	for jobType := range limits {
		r.slots[jobType] = 0
	}
	return r
}

// bucket returns a bucket, which is empty if the clock was set back since it was written.
func (r *Room) bucket(jobType string) rate.Bucket {
	if b := r.buckets[jobType]; !b.IsAhead(r.now) {
		return b
	}
	return rate.Bucket(r.now)
}

// Left returns the number of jobs of a type that may still start; math.MaxInt if it has no limit.
func (r *Room) Left(jobType string) int {
	if r == nil {
		return math.MaxInt
	}
	left := math.MaxInt
	if slots, ok := r.slots[jobType]; ok {
		left = slots
	}
	if tokens, ok := r.tokens[jobType]; ok {
		left = min(left, tokens)
	}
	if left == math.MaxInt {
		return left
	}
	return left - r.started[jobType]
}

// Take counts a job that starts.
func (r *Room) Take(jobType string) {
	if r == nil {
		return
	}
	if _, limited := r.limits[jobType]; limited {
		r.started[jobType]++
	}
}

// Refuse notes that there are jobs of a type that have no room.
func (r *Room) Refuse(jobType string) { r.refused[jobType] = true }

// RefuseAs notes what an earlier Room of the same claim noted; nil if there was none.
func (r *Room) RefuseAs(earlier *Room) {
	if r != nil && earlier != nil {
		maps.Copy(r.refused, earlier.refused)
	}
}

// Settle returns the buckets without the tokens of the started jobs. changed is false if none have
// changed.
func (r *Room) Settle() (settled Buckets, changed bool) {
	if r == nil {
		return nil, false
	}
	settled = Buckets{}
	for jobType := range r.tokens {
		before := r.buckets[jobType]
		settled[jobType] = r.bucket(jobType).Take(*r.limits[jobType].Rate, r.now, r.started[jobType])
		changed = changed || settled[jobType] != before
	}
	return settled, changed
}

// retryTime is the wait for a type with tokens that came after it was refused.
const retryTime = time.Millisecond

// Wait returns how long until jobs of a type may start whose rate refused some; 0 if there are none.
func (r *Room) Wait() time.Duration {
	if r == nil {
		return 0
	}
	var shortest time.Duration
	settled, _ := r.Settle()
	for jobType := range r.refused {
		limit := r.limits[jobType]
		slots, limited := r.slots[jobType]
		if limit.Rate == nil || limited && slots <= r.started[jobType] {
			continue // the end of a job makes room
		}
		wait := settled[jobType].Wait(*limit.Rate, r.now)
		if r.tokens[jobType] > r.started[jobType] {
			wait = retryTime
		}
		if wait > 0 && (shortest == 0 || wait < shortest) {
			shortest = wait
		}
	}
	return shortest
}
