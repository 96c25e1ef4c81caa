// Package suspension tells for how long the machine was suspended. Go's monotonic clock
// does not count that time, although leases end in it.
package suspension

import "time"

// Total returns how long the machine has been suspended since it was booted, as far as
// the operating system tells: on Linux the difference of CLOCK_BOOTTIME and
// CLOCK_MONOTONIC, on other systems always 0. It never decreases by more than the
// resolution of these clocks. A virtual machine that its host stops does not notice, but
// for a wall clock that jumps when it is set. It does not block and is safe for concurrent
// use.
func Total() time.Duration { return total() }
