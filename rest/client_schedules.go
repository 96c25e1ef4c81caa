package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/api"
	"github.com/mongodb/amboy/rest/internal/names"
)

var _ management.ScheduleManager = (*Client)(nil)

// schedulePath returns the path of a stored schedule. An empty name would vanish from the path.
func schedulePath(queue, name string) (string, error) {
	if err := notEmpty("name", name); err != nil {
		return "", err
	}
	return queuePath(queue) + "/schedules/" + names.Escape(name), nil
}

// sendSchedule sends a request about a stored schedule.
func sendSchedule[T any](ctx context.Context, c *Client, method, queue, name string, body any) (T, error) {
	path, err := schedulePath(queue, name)
	if err != nil {
		return *new(T), err
	}
	return send[T](ctx, c, method, path, body)
}

// checkArgs returns an error for arguments with which the request could not be encoded.
func checkArgs(args json.RawMessage) error {
	if len(args) > 0 && !json.Valid(args) {
		return &management.InvalidArgumentError{Field: "args", Value: string(args), Rule: "must be valid JSON"}
	}
	return nil
}

// StoredSchedules returns a page of the stored schedules that a filter selects.
func (c *Client) StoredSchedules(ctx context.Context, filter management.ScheduleFilter, page management.PageRequest) (management.StoredSchedulePage, error) {
	if err := filter.Validate(); err != nil {
		return management.StoredSchedulePage{}, err
	}
	q := query{}
	q.texts("queues", filter.Queues)
	q.text("name", filter.Name)
	q.page(page)
	return get[management.StoredSchedulePage](ctx, c, q.on("/v2/schedules/stored"))
}

// StoredSchedule returns everything known about a stored schedule.
func (c *Client) StoredSchedule(ctx context.Context, queue, name string) (management.StoredSchedule, error) {
	return sendSchedule[management.StoredSchedule](ctx, c, http.MethodGet, queue, name, nil)
}

// CreateSchedule stores a schedule.
func (c *Client) CreateSchedule(ctx context.Context, queue, name string, spec management.ScheduleSpec) (management.StoredSchedule, error) {
	if err := checkArgs(spec.Args); err != nil {
		return management.StoredSchedule{}, err
	}
	var made management.StoredSchedule
	_, err := c.remote.call(ctx, http.MethodPost, queuePath(queue)+"/schedules", api.NewSchedule{Name: name, ScheduleSpec: spec}, &made, http.StatusCreated)
	if err != nil {
		return management.StoredSchedule{}, err
	}
	return made, nil
}

// ChangeSchedule replaces the specification of a stored schedule.
func (c *Client) ChangeSchedule(ctx context.Context, queue, name string, change management.ScheduleChange) (management.StoredSchedule, error) {
	if err := checkArgs(change.Args); err != nil {
		return management.StoredSchedule{}, err
	}
	return sendSchedule[management.StoredSchedule](ctx, c, http.MethodPut, queue, name, change)
}

// PauseSchedule pauses or resumes a stored schedule.
func (c *Client) PauseSchedule(ctx context.Context, queue, name string, paused bool) (management.StoredSchedule, error) {
	return sendSchedule[management.StoredSchedule](ctx, c, http.MethodPatch, queue, name, api.PauseSchedule{Paused: &paused})
}

// DeleteSchedule removes a stored schedule.
func (c *Client) DeleteSchedule(ctx context.Context, queue, name string) error {
	_, err := sendSchedule[api.DeletedSchedule](ctx, c, http.MethodDelete, queue, name, nil)
	return err
}

// TriggerSchedule enqueues a job of a stored schedule now.
func (c *Client) TriggerSchedule(ctx context.Context, queue, name, idempotencyKey string) (management.Created, error) {
	path, err := schedulePath(queue, name)
	if err != nil {
		return management.Created{}, err
	}
	keyed := c.remote
	if idempotencyKey != "" {
		err = api.CheckKey("idempotency_key", idempotencyKey)
		if err != nil {
			return management.Created{}, err
		}
		keyed.header = keyed.header.Clone()
		keyed.header.Set(api.IdempotencyKey, idempotencyKey)
	}
	var created management.Created
	_, err = keyed.call(ctx, http.MethodPost, path+"/trigger", nil, &created, http.StatusCreated)
	if err != nil {
		return management.Created{}, err
	}
	return created, nil
}
