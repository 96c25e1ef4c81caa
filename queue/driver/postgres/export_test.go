package postgres

import "time"

// SetReplanEvery sets how long the connections of a driver that is not in use keep plans.
func SetReplanEvery(d *Driver, every time.Duration) { d.replanEvery = every }
