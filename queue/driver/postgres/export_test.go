package postgres

import "time"

// SetReplanInterval sets how long the connections of a driver that is not in use keep plans at least.
func SetReplanInterval(d *Driver, interval time.Duration) { d.replanInterval = interval }

// SetScans sets the duration of a scan of all lines from which on not every claim makes one, and the pause between
// scans, in durations of a scan.
func SetScans(d *Driver, slow time.Duration, apart int) {
	d.tops.slowScan, d.tops.scansApart = slow, apart
}

// WorkAtOnce sets the number of due and of expired records that Work reads.
func WorkAtOnce(d *Driver, n int) { d.workAtOnce = n }

// SetPatience sets how long a transaction first waits for a lock, as PostgreSQL writes it.
func SetPatience(d *Driver, wait string) { d.patient = patience(wait) }
