package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/mongodb/amboy/management"
)

// managementClient is a management.Manager behind a ManagementService.
type managementClient struct{ remote }

// NewManagementClient returns the manager behind a ManagementService. base is the URL
// of the prefix under which its handler is mounted, as in
// https://example.com/amboy/management. The errors are those of the manager where
// the service tells them (see ResponseError), and those of HTTP.
func NewManagementClient(base string) management.Manager {
	return NewManagementClientFromExisting(nil, base)
}

// NewManagementClientFromExisting is NewManagementClient with an HTTP client, which
// authenticates for instance. Where that is nil, it makes one.
func NewManagementClientFromExisting(client *http.Client, base string) management.Manager {
	return &managementClient{newRemote(client, base)}
}

func (c *managementClient) JobStatus(ctx context.Context, filter management.StatusFilter) ([]management.JobTypeCount, error) {
	if err := filter.Validate(); err != nil {
		return nil, err
	}
	counts := []management.JobTypeCount{}
	_, err := c.call(ctx, http.MethodGet, fill("/v1/status/{}", string(filter)), nil, &counts)
	return counts, err
}

// sentID is a GroupedID as services send it, with the ID under either name.
type sentID struct {
	ID       string `json:"ID"`
	StoredID string `json:"_id"`
	Group    string `json:"group"`
}

func (c *managementClient) JobIDsByState(ctx context.Context, jobType string, filter management.StatusFilter) ([]management.GroupedID, error) {
	if err := errors.Join(notEmpty("type", jobType), filter.Validate()); err != nil {
		return nil, err
	}
	var sent []sentID
	_, err := c.call(ctx, http.MethodGet, fill("/v1/id/status/{}/type/{}", string(filter), jobType), nil, &sent)
	ids := make([]management.GroupedID, len(sent))
	for i, id := range sent {
		ids[i] = management.GroupedID{ID: cmp.Or(id.ID, id.StoredID), Group: id.Group}
	}
	return ids, err
}

func (c *managementClient) CompleteJob(ctx context.Context, id string) error {
	return c.complete(ctx, fill("/v1/jobs/mark_complete/id/{}", id), notEmpty("ID", id))
}

func (c *managementClient) CompleteJobs(ctx context.Context, filter management.StatusFilter) error {
	return c.complete(ctx, fill("/v1/jobs/mark_complete/status/{}", string(filter)), filter.Validate())
}

func (c *managementClient) CompleteJobsByType(ctx context.Context, filter management.StatusFilter, jobType string) error {
	route := fill("/v1/jobs/mark_complete/status/{}/type/{}", string(filter), jobType)
	return c.complete(ctx, route, filter.Validate(), notEmpty("type", jobType))
}

func (c *managementClient) CompleteJobsByPattern(ctx context.Context, filter management.StatusFilter, pattern string) error {
	route := fill("/v1/jobs/mark_complete/status/{}/pattern/{}", string(filter), pattern)
	return c.complete(ctx, route, filter.Validate(), notEmpty("pattern", pattern))
}

// complete marks jobs complete, unless there is an error among those of the arguments.
func (s remote) complete(ctx context.Context, path string, arguments ...error) error {
	err := errors.Join(arguments...)
	if err == nil {
		var answer completed
		_, err = s.call(ctx, http.MethodPost, path, nil, &answer)
	}
	return err
}
