package postgres

import "time"

// SetReplanInterval sets how long the connections of a driver that is not in use keep plans at least.
func SetReplanInterval(d *Driver, interval time.Duration) { d.replanInterval = interval }

// SetLooks sets how long a look at all lines takes at least that is not repeated by each claim, and how many times as
// long the time until the next one is.
func SetLooks(d *Driver, slow time.Duration, apart int) {
	d.tops.slowLook, d.tops.looksApart = slow, apart
}

// WorkAtOnce sets the number of due and of expired records that Work reads.
func WorkAtOnce(d *Driver, n int) { d.workAtOnce = n }
