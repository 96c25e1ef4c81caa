package job

import "sync/atomic"

var lastNumber atomic.Int64

// GetNumber returns 1 for the first call in this process, and one more for each later
// call. It serves to make job IDs unique. It is safe for concurrent use.
func GetNumber() int { return int(lastNumber.Add(1)) }
