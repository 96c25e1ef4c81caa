package rest

import (
	"net/http"

	"github.com/mongodb/amboy/rest/internal/guard"
)

// FromLoopback is for Authorize: it lets a request do everything that comes from a
// loopback address, names one as its host, and was not passed on by a proxy. So whoever
// has an account on the machine may do everything. It is safe for concurrent use.
func FromLoopback(r *http.Request, access Access) error { return guard.FromLoopback(r, access) }
