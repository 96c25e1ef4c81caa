package schedule

import (
	"math"
	"time"
)

// priorityKey sorts larger priorities first. It uses the complement, because the smallest
// integer has no negative.
func priorityKey(priority int) int64 { return ^int64(priority) }

// The range of times that a key represents. There is one more key after lastTime, for the
// time after a deadline.
var (
	firstTime = time.Unix(0, math.MinInt64)
	lastTime  = time.Unix(0, math.MaxInt64-1)
)

// timeKey sorts earlier times first. A time outside the range, which is centuries away, gets
// the key of the nearest bound.
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
