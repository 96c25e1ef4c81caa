package suspension

import (
	"time"

	"golang.org/x/sys/unix"
)

func total() time.Duration {
	var monotonic, boot unix.Timespec
	// The clocks can't be read at the same moment. In this order the result is, if
	// anything, too long, so that a lease counts as expired too early and never too late.
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - monotonic.Nano())
}
