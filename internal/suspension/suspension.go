// Package suspension measures how long the machine was suspended. Go's monotonic clock
// does not count that time, but leases expire during it.
package suspension

import "time"

// Total returns how long the machine has been suspended since it was booted, if the
// operating system reports it: on Linux it is the difference of CLOCK_BOOTTIME and
// CLOCK_MONOTONIC, on other systems always 0. It never decreases by more than the
// resolution of these clocks. A virtual machine can't detect that its host stopped it,
// except by a jump of the wall clock when that is set. Total does not block and is safe
// for concurrent use.
func Total() time.Duration { return total() }
