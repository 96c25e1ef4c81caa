package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/api"
	"github.com/mongodb/amboy/rest/internal/names"
)

// Client is a management.Inspector that calls a Handler in another process. Its methods
// return HTTP errors as they are, and a *ResponseError for a request that the handler
// refuses. It wraps the error that the same call returns in that process. management.WithActor
// has no effect: the option Actor of the handler names the actor. Client follows no redirects, which
// could turn a POST into a GET, and send the token elsewhere. It checks filters before it sends
// them: an empty list would vanish from a request. It is safe for concurrent use.
type Client struct{ remote remote }

var (
	_ management.Inspector     = (*Client)(nil)
	_ management.Diagnostician = (*Client)(nil)
	_ management.TypeLister    = (*Client)(nil)
)

// ClientOption configures a Client.
type ClientOption func(*Client)

// WithToken sets the bearer token that the client sends. To authenticate in another way,
// pass an http.Client that does so.
func WithToken(token string) ClientOption {
	return func(c *Client) { c.remote.header.Set("Authorization", "Bearer "+token) }
}

// NewClient returns a client for the handler that is mounted below a URL, such as
// https://example.com/amboy. It uses the given HTTP client, whose timeout must be longer
// than any Watch; if that is nil, it uses one without a timeout. It returns a
// *management.InvalidArgumentError for an invalid URL. It does not connect.
func NewClient(baseURL string, client *http.Client, opts ...ClientOption) (*Client, error) {
	base, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, invalidURL("(not shown)", "must be a URL")
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, invalidURL(base.Redacted(), "must begin with http:// or https:// and a host")
	case base.RawQuery != "", base.Fragment != "":
		return nil, invalidURL(base.Redacted(), "must have no query and no fragment")
	}
	c := &Client{newRemote(client, baseURL)}
	c.remote.header, c.remote.failed = http.Header{}, problemError
	for _, option := range opts {
		option(c)
	}
	return c, nil
}

func invalidURL(value, rule string) error {
	return &management.InvalidArgumentError{Field: "URL", Value: value, Rule: rule}
}

// query builds the query of a URL. Its methods leave out zero values.
type query url.Values

func (q query) texts(name string, values []string) {
	for _, value := range values {
		url.Values(q).Add(name, value)
	}
}

func (q query) text(name, value string) {
	if value != "" {
		url.Values(q).Set(name, value)
	}
}

func (q query) number(name string, value int) {
	if value != 0 {
		url.Values(q).Set(name, strconv.Itoa(value))
	}
}

func (q query) times(name string, r management.TimeRange) {
	for bound, at := range map[string]time.Time{"[from]": r.From, "[to]": r.To} {
		if !at.IsZero() {
			url.Values(q).Set(name+bound, at.Format(time.RFC3339Nano))
		}
	}
}

func (q query) filter(f management.JobFilter) {
	q.texts("queues", f.Queues)
	for _, state := range f.States {
		url.Values(q).Add("states", string(state))
	}
	q.texts("types", f.Types)
	q.texts("tags", f.Tags)
	q.texts("ids", f.IDs)
	q.text("id_pattern", f.IDPattern)
	q.text("id_part", f.IDPart)
	q.text("type_part", f.TypePart)
	q.text("tag_part", f.TagPart)
	q.text("args_part", f.ArgsPart)
	q.text("error", f.Error)
	q.text("error_group", f.ErrorGroup)
	q.text("scope", f.Scope)
	q.times("created", f.Created)
	q.times("due", f.Due)
	q.times("ended", f.Ended)
}

func (q query) page(p management.PageRequest) {
	q.text("cursor", p.Cursor)
	q.number("limit", p.Limit)
	if p.Newest {
		url.Values(q).Set("newest", "true")
	}
}

// on returns a path with the query.
func (q query) on(path string) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + url.Values(q).Encode()
}

// get requests a T.
func get[T any](ctx context.Context, c *Client, path string) (result T, err error) {
	return send[T](ctx, c, http.MethodGet, path, nil)
}

// send sends a body, and returns the T in the answer, or the zero T with an error.
func send[T any](ctx context.Context, c *Client, method, path string, body any) (result T, err error) {
	_, err = c.remote.call(ctx, method, path, body, &result)
	if err != nil {
		return *new(T), err
	}
	return result, nil
}

func queuePath(queue string) string { return "/v2/queues/" + names.Encode(queue) }

// jobPath returns the path of a job. An empty ID would vanish from the path.
func jobPath(queue, id string) (string, error) {
	if err := notEmpty("id", id); err != nil {
		return "", err
	}
	return queuePath(queue) + "/jobs/" + names.Escape(id), nil
}

// Queues describes all queues, ordered by name. It requests as many pages as they fill.
func (c *Client) Queues(ctx context.Context) ([]management.Queue, error) {
	queues := []management.Queue{}
	for page := (management.PageRequest{Limit: management.MaxLimit}); ; {
		found, err := c.FindQueues(ctx, management.QueueFilter{}, page)
		if err != nil {
			return nil, err
		}
		queues = append(queues, found.Queues...)
		if found.Next == "" {
			return queues, nil
		}
		page.Cursor = found.Next
	}
}

// FindQueues returns a page of the queues that a filter selects, ordered by name.
func (c *Client) FindQueues(ctx context.Context, filter management.QueueFilter, page management.PageRequest) (management.QueuePage, error) {
	if err := filter.Validate(); err != nil {
		return management.QueuePage{}, err
	}
	q := query{}
	q.text("name", filter.Name)
	q.texts("queues", filter.Queues)
	q.page(page)
	return get[management.QueuePage](ctx, c, q.on("/v2/queues"))
}

// SumQueues adds up all queues, and describes the busiest.
func (c *Client) SumQueues(ctx context.Context) (management.QueueTotals, error) {
	return get[management.QueueTotals](ctx, c, "/v2/totals")
}

// Queue describes one queue.
func (c *Client) Queue(ctx context.Context, name string) (management.Queue, error) {
	return get[management.Queue](ctx, c, queuePath(name))
}

// SetControl changes the controls of a queue, and returns the resulting controls.
func (c *Client) SetControl(ctx context.Context, queue string, change management.ControlChange) (management.Control, error) {
	if err := change.Validate(); err != nil { // the rate may be a number that can't be encoded
		return management.Control{}, err
	}
	return send[management.Control](ctx, c, http.MethodPatch, queuePath(queue), change)
}

// FindJobs returns a page of the jobs that a filter selects.
func (c *Client) FindJobs(ctx context.Context, filter management.JobFilter, page management.PageRequest) (management.JobPage, error) {
	if err := filter.Validate(); err != nil {
		return management.JobPage{}, err
	}
	q := query{}
	q.filter(filter)
	q.page(page)
	if page.Args {
		q.text("args", "true")
	}
	found, err := get[management.JobPage](ctx, c, q.on("/v2/jobs"))
	found.Jobs = numbering.ReadJobs(found.Jobs)
	return found, err
}

// CountJobs counts the jobs that a filter selects, up to most.
func (c *Client) CountJobs(ctx context.Context, filter management.JobFilter, most int) (management.Count, error) {
	if err := filter.Validate(); err != nil {
		return management.Count{}, err
	}
	q := query{"most": {strconv.Itoa(most)}}
	q.filter(filter)
	return get[management.Count](ctx, c, q.on("/v2/jobs/count"))
}

// CountStates counts the jobs that a request's filter selects by their states.
func (c *Client) CountStates(ctx context.Context, req management.StateCountRequest) ([]management.StateCount, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	q := query{}
	q.filter(req.Filter)
	q.number("most", req.Most)
	if req.Within != 0 {
		q.text("within", req.Within.String())
	}
	counts, err := get[api.StateCountList](ctx, c, q.on("/v2/jobs/states"))
	return counts.States, err
}

// ErrorGroups groups the jobs that a filter selects by their last errors.
func (c *Client) ErrorGroups(ctx context.Context, req management.ErrorGroupRequest) (management.ErrorGroups, error) {
	if err := req.Validate(); err != nil {
		return management.ErrorGroups{}, err
	}
	q := query{}
	q.filter(req.Filter)
	q.page(management.PageRequest{Cursor: req.Cursor, Limit: req.Limit})
	groups, err := get[management.ErrorGroups](ctx, c, q.on("/v2/jobs/errors"))
	return numbering.ReadErrorGroups(groups), err
}

// Job returns everything known about one job.
func (c *Client) Job(ctx context.Context, queue, id string) (management.Job, error) {
	path, err := jobPath(queue, id)
	if err != nil {
		return management.Job{}, err
	}
	job, err := get[management.Job](ctx, c, path)
	if err != nil {
		return management.Job{}, err
	}
	return numbering.ReadJob(job), nil
}

// Graph returns a job, the jobs that it waits for and the jobs that wait for it.
func (c *Client) Graph(ctx context.Context, queue, id string, distance int) (management.Graph, error) {
	path, err := jobPath(queue, id)
	if err != nil {
		return management.Graph{}, err
	}
	return get[management.Graph](ctx, c, fmt.Sprintf("%s/graph?distance=%d", path, distance))
}

// CreateJob puts a job of a type that is registered in the other process.
func (c *Client) CreateJob(ctx context.Context, job management.NewJob) (management.Created, error) {
	if len(job.Args) > 0 && !json.Valid(job.Args) { // the request could not be encoded
		return management.Created{}, &management.InvalidArgumentError{Field: "args", Value: string(job.Args), Rule: "must be valid JSON"}
	}
	keyed := c.remote
	if job.IdempotencyKey != "" {
		if err := api.CheckKey("idempotency_key", job.IdempotencyKey); err != nil {
			return management.Created{}, err
		}
		keyed.header = keyed.header.Clone()
		keyed.header.Set(api.IdempotencyKey, job.IdempotencyKey)
	}
	var created management.Created
	_, err := keyed.call(ctx, http.MethodPost, queuePath(job.Queue)+"/jobs", job, &created, http.StatusCreated)
	if err != nil {
		return management.Created{}, err
	}
	return created, nil
}

// ActOn performs an action on one job.
func (c *Client) ActOn(ctx context.Context, queue, id string, action management.Action) (management.Acted, error) {
	path, err := jobPath(queue, id)
	if err != nil {
		return management.Acted{}, err
	}
	return send[management.Acted](ctx, c, http.MethodPost, path+"/actions", action)
}

// Act performs an action on the jobs that a filter selects, or reports what it would do.
func (c *Client) Act(ctx context.Context, req management.ActRequest) (management.Acted, error) {
	if err := req.Validate(); err != nil {
		return management.Acted{}, err
	}
	return send[management.Acted](ctx, c, http.MethodPost, "/v2/jobs/actions", req)
}

// EditJob changes the arguments, the priority or the time of a job that has not started.
func (c *Client) EditJob(ctx context.Context, queue, id string, edit management.JobEdit) (management.JobEdited, error) {
	path, err := jobPath(queue, id)
	if err != nil {
		return management.JobEdited{}, err
	}
	if len(edit.Args) > 0 && !json.Valid(edit.Args) { // the request could not be encoded
		return management.JobEdited{}, &management.InvalidArgumentError{Field: "args", Value: string(edit.Args), Rule: "must be valid JSON"}
	}
	return send[management.JobEdited](ctx, c, http.MethodPatch, path, edit)
}

// Scopes lists the scopes that are held.
func (c *Client) Scopes(ctx context.Context, filter management.ScopeFilter, page management.PageRequest) (management.ScopePage, error) {
	if err := filter.Validate(); err != nil {
		return management.ScopePage{}, err
	}
	q := query{}
	q.texts("queues", filter.Queues)
	q.text("name", filter.Name)
	q.text("part", filter.Part)
	q.page(page)
	return get[management.ScopePage](ctx, c, q.on("/v2/scopes"))
}

// Processes lists the processes that are alive, or were until recently.
func (c *Client) Processes(ctx context.Context) ([]management.Process, error) {
	list, err := get[api.ProcessList](ctx, c, "/v2/processes")
	return numbering.ReadProcesses(list.Processes), err
}

// Activity reports what the queues have done recently.
func (c *Client) Activity(ctx context.Context, req management.ActivityRequest) (management.Activity, error) {
	if err := req.Validate(); err != nil {
		return management.Activity{}, err
	}
	q := query{}
	q.texts("queues", req.Queues)
	q.texts("types", req.Types)
	if req.Last != 0 {
		q.text("last", req.Last.String())
	}
	return get[management.Activity](ctx, c, q.on("/v2/activity"))
}

// Schedules lists the schedules that processes run.
func (c *Client) Schedules(ctx context.Context) ([]management.Schedule, error) {
	list, err := get[api.ScheduleList](ctx, c, "/v2/schedules")
	return list.Schedules, err
}

// Diagnose reports what is wrong with the store of the service.
func (c *Client) Diagnose(ctx context.Context) (management.Diagnosis, error) {
	return get[management.Diagnosis](ctx, c, "/v2/diagnosis")
}

// JobTypes lists the types of jobs that are registered in the process of the service, by name.
func (c *Client) JobTypes(ctx context.Context) ([]management.JobType, error) {
	list, err := get[api.TypeList](ctx, c, "/v2/types")
	return list.Types, err
}

// Audit returns a page of the entries of the audit list that a filter selects, the latest first.
func (c *Client) Audit(ctx context.Context, filter management.AuditFilter, page management.PageRequest) (management.AuditPage, error) {
	if err := filter.Validate(); err != nil {
		return management.AuditPage{}, err
	}
	q := query{}
	q.texts("queues", filter.Queues)
	q.texts("actors", filter.Actors)
	q.texts("what", filter.What)
	q.text("job_id", filter.JobID)
	q.times("time", filter.Time)
	q.page(page)
	return get[management.AuditPage](ctx, c, q.on("/v2/audit"))
}
