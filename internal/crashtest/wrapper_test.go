package crashtest_test

import (
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// extras are the interfaces beyond driver.Driver for which a queue asks its driver.
type extras interface {
	driver.ClaimSubscriber
	driver.EndFollower
	driver.IdleProber
	driver.Surveyor
}

var _ extras = (*mongodb.Driver)(nil)

// asDeployed returns a wrapper that implements the extras of the driver that it wraps. A queue on it works
// as in a service: the wrapper alone hides them.
func asDeployed(wrapper, wrapped driver.Driver) driver.Driver {
	if e, ok := wrapped.(extras); ok {
		return struct {
			driver.Driver
			extras
		}{wrapper, e}
	}
	return wrapper
}
