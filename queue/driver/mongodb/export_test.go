package mongodb

import "time"

// ScanAtOnce has the driver look at so many documents at once where it scans.
func (d *Driver) ScanAtOnce(n int) { d.scannedAtOnce = n }

// Elapse lets time pass by the monotonic clock of a driver.
func Elapse(d *Driver, by time.Duration) {
	was := d.elapsed
	d.elapsed = func() time.Duration { return was() + by }
}
