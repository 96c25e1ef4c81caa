package rest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/rest/internal/web"
)

// runningJobs serves the running jobs of some pools.
type runningJobs struct {
	// pools returns the pools by the name of their queue.
	pools func(context.Context) (map[string]amboy.AbortableRunner, error)
	// notRunning is the status of the answer to aborting a job that does not run.
	notRunning int
}

// runningJob describes a running job.
type runningJob struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Group  string `json:"group,omitempty"`
	Error  string `json:"error,omitempty"`
}

const (
	statusRunning    = "running"
	statusAborted    = "aborted"
	statusNotRunning = "not running"
)

func (j *runningJobs) handler(opts []Option) http.Handler {
	return newServiceHandler(map[string]http.HandlerFunc{
		"GET /v1/jobs/list":     j.list,
		"DELETE /v1/jobs/abort": j.abortAll,
		"GET /v1/job/{name}":    j.get,
		"DELETE /v1/job/{name}": j.abort,
	}, nil, opts)
}

func (j *runningJobs) list(w http.ResponseWriter, r *http.Request) {
	pools, err := j.pools(r.Context())
	if err != nil {
		refuse(w, r, err)
		return
	}
	var ids []string
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		ids = append(ids, pools[name].RunningJobs()...)
	}
	web.WriteArray(w, r, ids)
}

func (j *runningJobs) abortAll(w http.ResponseWriter, r *http.Request) {
	pools, err := j.pools(r.Context())
	if err == nil {
		err = inAll(r.Context(), pools, func(ctx context.Context, pool amboy.AbortableRunner) error { return pool.AbortAll(ctx) })
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	web.WriteJSON(w, r, http.StatusOK, struct{}{})
}

// inAll calls a function for all pools concurrently.
func inAll(ctx context.Context, pools map[string]amboy.AbortableRunner, do func(context.Context, amboy.AbortableRunner) error) error {
	var aborting sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, pool := range pools {
		aborting.Go(func() {
			if err := do(ctx, pool); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	aborting.Wait()
	return errors.Join(errs...)
}

// find returns the pools that run the job in the path of a request.
func (j *runningJobs) find(r *http.Request) (id string, in map[string]amboy.AbortableRunner, err error) {
	id, err = jobID(r)
	if err != nil {
		return id, nil, err
	}
	in, err = j.pools(r.Context())
	maps.DeleteFunc(in, func(_ string, pool amboy.AbortableRunner) bool { return !pool.IsRunning(id) })
	return id, in, err
}

func (j *runningJobs) get(w http.ResponseWriter, r *http.Request) {
	id, in, err := j.find(r)
	switch {
	case err != nil:
		refuse(w, r, err)
	case len(in) == 0:
		web.WriteJSON(w, r, http.StatusNotFound, notRunning(id))
	default:
		web.WriteJSON(w, r, http.StatusOK, runningJob{Name: id, Status: statusRunning, Group: first(in)})
	}
}

func (j *runningJobs) abort(w http.ResponseWriter, r *http.Request) {
	id, in, err := j.find(r)
	var gone atomic.Int64 // the jobs that ended by themselves
	if err == nil {
		err = inAll(r.Context(), in, func(ctx context.Context, pool amboy.AbortableRunner) error {
			failure := pool.Abort(ctx, id)
			if amboy.IsJobNotFoundError(failure) {
				gone.Add(1)
				return nil
			}
			return failure
		})
	}
	switch {
	case err != nil:
		refuse(w, r, err)
	case gone.Load() == int64(len(in)):
		web.WriteJSON(w, r, j.notRunning, notRunning(id))
	default:
		web.WriteJSON(w, r, http.StatusOK, runningJob{Name: id, Status: statusAborted, Group: first(in)})
	}
}

func notRunning(id string) runningJob {
	return runningJob{Name: id, Status: statusNotRunning, Error: "the job is not running"}
}

func first(pools map[string]amboy.AbortableRunner) string {
	return slices.Min(slices.Collect(maps.Keys(pools)))
}
