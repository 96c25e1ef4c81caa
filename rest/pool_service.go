package rest

import (
	"context"
	"net/http"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/rest/internal/web"
)

// AbortablePoolManagementService lists and aborts, over HTTP, the jobs that run in a pool
// (see Handler). It is safe for concurrent use.
type AbortablePoolManagementService struct{ pool amboy.AbortableRunner }

// NewAbortablePoolManagementService returns a service for a pool. If the pool is nil, the
// service answers with status 503.
func NewAbortablePoolManagementService(pool amboy.AbortableRunner) *AbortablePoolManagementService {
	return &AbortablePoolManagementService{pool: pool}
}

// Handler serves these routes, relative to the prefix that the program removes. Aborting
// waits until the jobs have ended, and is answered with 408 if the request ends first:
//
//	GET    /v1/jobs/list     the IDs of the running jobs
//	DELETE /v1/jobs/abort    aborts all of them
//	GET    /v1/job/{name}    a running job; 404 if it does not run
//	DELETE /v1/job/{name}    aborts it; 400 if it does not run
//
// The first is answered with a list of IDs, the second with {}, and the others with
// {"name","status"}; the status is "running", "aborted" or "not running".
//
// Without options it allows every request. With options it follows the rules of the
// function Handler: see Authorize, Actor, Audit and Hosts. Requests are authorized for all queues.
func (s *AbortablePoolManagementService) Handler(opts ...Option) http.Handler {
	running := &runningJobs{
		pools: func(context.Context) (map[string]amboy.AbortableRunner, error) {
			if s.pool == nil {
				return nil, errNoPool
			}
			return map[string]amboy.AbortableRunner{"": s.pool}, nil
		},
		notRunning: http.StatusBadRequest,
	}
	return running.handler(opts)
}

var errNoPool = &web.Failure{Status: http.StatusServiceUnavailable, Text: "the service has no pool"}
