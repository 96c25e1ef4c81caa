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

// NewAbortablePoolManagementClient returns a client for the service that is mounted below
// a base URL, such as https://example.com/amboy/pool.
func NewAbortablePoolManagementClient(base string) *AbortablePoolManagementClient {
	return NewAbortablePoolManagementClientFromExisting(nil, base)
}

// NewAbortablePoolManagementClientFromExisting is like NewAbortablePoolManagementClient
// with a given HTTP client, for instance one that authenticates. If the client is nil, it
// makes one.
func NewAbortablePoolManagementClientFromExisting(client *http.Client, base string) *AbortablePoolManagementClient {
	return &AbortablePoolManagementClient{newRemote(client, base)}
}

// ListJobs returns the IDs of the running jobs.
func (c *AbortablePoolManagementClient) ListJobs(ctx context.Context) ([]string, error) {
	ids := []string{}
	_, err := c.remote.call(ctx, http.MethodGet, "/v1/jobs/list", nil, &ids)
	return ids, err
}

// AbortAllJobs aborts all running jobs, and waits until they have ended.
func (c *AbortablePoolManagementClient) AbortAllJobs(ctx context.Context) error {
	_, err := c.remote.call(ctx, http.MethodDelete, "/v1/jobs/abort", nil, &struct{}{})
	return err
}

// IsRunning reports whether a job is running.
func (c *AbortablePoolManagementClient) IsRunning(ctx context.Context, id string) (bool, error) {
	if err := notEmpty("ID", id); err != nil {
		return false, err
	}
	var answer runningJob
	_, err := c.remote.call(ctx, http.MethodGet, routePath("/v1/job/{}", id), nil, &answer, http.StatusNotFound)
	return answer.Status == statusRunning, err
}

// AbortJob aborts a job, and waits until it has ended. It returns an error for which
// amboy.IsJobNotFoundError is true if the job is not running.
func (c *AbortablePoolManagementClient) AbortJob(ctx context.Context, id string) error {
	if err := notEmpty("ID", id); err != nil {
		return err
	}
	var answer runningJob
	_, err := c.remote.call(ctx, http.MethodDelete, routePath("/v1/job/{}", id), nil, &answer, http.StatusBadRequest, http.StatusNotFound)
	if err == nil && answer.Status != statusAborted {
		return amboy.NewJobNotFoundErrorf("aborting job %q: %s", id, answer.Error)
	}
	return err
}
