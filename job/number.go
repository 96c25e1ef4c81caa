package job

import "sync/atomic"

var lastNumber atomic.Int64

// GetNumber returns a number that is larger by one at each call in this
// process, from 1 on. Job IDs are made unique with it. It is safe for
// concurrent use.
func GetNumber() int { return int(lastNumber.Add(1)) }
