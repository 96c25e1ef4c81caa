package suspension

import (
	"time"

	"golang.org/x/sys/unix"
)

func total() time.Duration {
	var monotonic, boot unix.Timespec
	// The clocks can't be read at the same moment. Read in this order they show, if
	// anything, too long a suspension, so that a lease counts as over too early and not
	// too late.
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - monotonic.Nano())
}
