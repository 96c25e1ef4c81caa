package postgres

import "time"

// SetReplanInterval sets how long the connections of a driver that is not in use keep plans at least.
func SetReplanInterval(d *Driver, interval time.Duration) { d.replanInterval = interval }

// WorkAtOnce sets the number of due and of expired records that Work reads.
func WorkAtOnce(d *Driver, n int) { d.workAtOnce = n }
