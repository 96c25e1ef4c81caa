package mongodb

import "time"

// ScanAtOnce sets the number of documents that one scan examines.
func (d *Driver) ScanAtOnce(n int) { d.scanBatch = n }

// Elapse advances the monotonic clock of a driver.
func Elapse(d *Driver, by time.Duration) {
	was := d.elapsed
	d.elapsed = func() time.Duration { return was() + by }
}
