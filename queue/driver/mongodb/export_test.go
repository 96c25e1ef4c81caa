package mongodb

import "time"

// ScanAtOnce sets the number of documents that one scan examines.
func (d *Driver) ScanAtOnce(n int) { d.scanBatch = n }

// TimedAtOnce sets the number of due documents that Work reads, and that a claim makes ready.
func (d *Driver) TimedAtOnce(n int) { d.timedBatch = n }

// Elapse advances the monotonic clock of a driver.
func Elapse(d *Driver, by time.Duration) { d.skipped.Add(int64(by)) }

// KnownLeases returns how many leases a driver keeps in memory.
func KnownLeases(d *Driver) int {
	d.leases.mu.Lock()
	defer d.leases.mu.Unlock()
	return len(d.leases.byKey)
}

// Sweep requests a sweep.
func Sweep(d *Driver) { d.sweeper.hurry() }

// KnownDrains returns of how many queues a driver knows whether they are draining.
func KnownDrains(d *Driver) int {
	d.barrier.mu.Lock()
	defer d.barrier.mu.Unlock()
	return len(d.barrier.queues)
}
