package schedule

import (
	"math"
	"time"
)

// priorityKey puts larger priorities first. It is the complement and not the
// negative, which the smallest integer does not have.
func priorityKey(priority int) int64 { return ^int64(priority) }

// The times that a key can tell apart. There is a key after lastTime, for when
// a deadline is over.
var (
	firstTime = time.Unix(0, math.MinInt64)
	lastTime  = time.Unix(0, math.MaxInt64-1)
)

// timeKey puts earlier times first. It takes one that is centuries away for the
// last, or the first, that has a key.
func timeKey(t time.Time) int64 {
	switch {
	case t.Before(firstTime):
		return firstTime.UnixNano()
	case t.After(lastTime):
		return lastTime.UnixNano()
	default:
		return t.UnixNano()
	}
}
