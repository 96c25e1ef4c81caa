package rest

import (
	"context"
	"net/http"

	"github.com/mongodb/amboy"
)

// AbortablePoolManagementClient calls an AbortablePoolManagementService, or a
// ManagementGroupService. It is safe for concurrent use. Its methods return the errors
// of HTTP and of the service (see ResponseError).
type AbortablePoolManagementClient struct{ remote remote }

// NewAbortablePoolManagementClient returns a client for the service whose handler is
// mounted under a prefix. base is the URL of that, as in
// https://example.com/amboy/pool.
func NewAbortablePoolManagementClient(base string) *AbortablePoolManagementClient {
	return NewAbortablePoolManagementClientFromExisting(nil, base)
}

// NewAbortablePoolManagementClientFromExisting is NewAbortablePoolManagementClient
// with an HTTP client, which authenticates for instance. Where that is nil, it makes
// one.
func NewAbortablePoolManagementClientFromExisting(client *http.Client, base string) *AbortablePoolManagementClient {
	return &AbortablePoolManagementClient{newRemote(client, base)}
}

// ListJobs returns the IDs of the jobs that run.
func (c *AbortablePoolManagementClient) ListJobs(ctx context.Context) ([]string, error) {
	ids := []string{}
	_, err := c.remote.call(ctx, http.MethodGet, "/v1/jobs/list", nil, &ids)
	return ids, err
}

// AbortAllJobs aborts the jobs that run, and waits until they have ended.
func (c *AbortablePoolManagementClient) AbortAllJobs(ctx context.Context) error {
	_, err := c.remote.call(ctx, http.MethodDelete, "/v1/jobs/abort", nil, &struct{}{})
	return err
}

// IsRunning tells whether a job runs.
func (c *AbortablePoolManagementClient) IsRunning(ctx context.Context, id string) (bool, error) {
	if err := notEmpty("ID", id); err != nil {
		return false, err
	}
	var answer runningJob
	_, err := c.remote.call(ctx, http.MethodGet, fill("/v1/job/{}", id), nil, &answer, http.StatusNotFound)
	return answer.Status == statusRunning, err
}

// AbortJob aborts a job, and waits until it has ended. It returns an error for which
// amboy.IsJobNotFoundError is true where it does not run.
func (c *AbortablePoolManagementClient) AbortJob(ctx context.Context, id string) error {
	if err := notEmpty("ID", id); err != nil {
		return err
	}
	var answer runningJob
	_, err := c.remote.call(ctx, http.MethodDelete, fill("/v1/job/{}", id), nil, &answer, http.StatusBadRequest, http.StatusNotFound)
	if err == nil && answer.Status != statusAborted {
		return amboy.NewJobNotFoundErrorf("aborting job %q: %s", id, answer.Error)
	}
	return err
}
