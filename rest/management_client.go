package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/mongodb/amboy/management"
)

// managementClient is a management.Manager that calls a ManagementService.
type managementClient struct{ remote }

// NewManagementClient returns a Manager that calls the ManagementService mounted below a
// base URL, such as https://example.com/amboy/management. Its methods return the errors of
// the remote manager as far as the service transmits them (see ResponseError), and HTTP
// errors.
func NewManagementClient(base string) management.Manager {
	return NewManagementClientFromExisting(nil, base)
}

// NewManagementClientFromExisting is like NewManagementClient with a given HTTP client, for
// instance one that authenticates. If the client is nil, it makes one.
func NewManagementClientFromExisting(client *http.Client, base string) management.Manager {
	return &managementClient{newRemote(client, base)}
}

func (c *managementClient) JobStatus(ctx context.Context, filter management.StatusFilter) ([]management.JobTypeCount, error) {
	if err := filter.Validate(); err != nil {
		return nil, err
	}
	counts := []management.JobTypeCount{}
	_, err := c.call(ctx, http.MethodGet, routePath("/v1/status/{}", string(filter)), nil, &counts)
	return counts, err
}

// sentID is a GroupedID as services send it, with the ID in either of two fields.
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
	_, err := c.call(ctx, http.MethodGet, routePath("/v1/id/status/{}/type/{}", string(filter), jobType), nil, &sent)
	ids := make([]management.GroupedID, len(sent))
	for i, id := range sent {
		ids[i] = management.GroupedID{ID: cmp.Or(id.ID, id.StoredID), Group: id.Group}
	}
	return ids, err
}

func (c *managementClient) CompleteJob(ctx context.Context, id string) error {
	return c.complete(ctx, routePath("/v1/jobs/mark_complete/id/{}", id), notEmpty("ID", id))
}

func (c *managementClient) CompleteJobs(ctx context.Context, filter management.StatusFilter) error {
	return c.complete(ctx, routePath("/v1/jobs/mark_complete/status/{}", string(filter)), filter.Validate())
}

func (c *managementClient) CompleteJobsByType(ctx context.Context, filter management.StatusFilter, jobType string) error {
	route := routePath("/v1/jobs/mark_complete/status/{}/type/{}", string(filter), jobType)
	return c.complete(ctx, route, filter.Validate(), notEmpty("type", jobType))
}

func (c *managementClient) CompleteJobsByPattern(ctx context.Context, filter management.StatusFilter, pattern string) error {
	route := routePath("/v1/jobs/mark_complete/status/{}/pattern/{}", string(filter), pattern)
	return c.complete(ctx, route, filter.Validate(), notEmpty("pattern", pattern))
}

// complete marks jobs complete, unless one of the arguments is invalid.
func (s remote) complete(ctx context.Context, path string, arguments ...error) error {
	err := errors.Join(arguments...)
	if err == nil {
		var answer completed
		_, err = s.call(ctx, http.MethodPost, path, nil, &answer)
	}
	return err
}
