package mongodb

// ScanAtOnce has the driver look at so many documents at once where it scans.
func (d *Driver) ScanAtOnce(n int) { d.scannedAtOnce = n }
