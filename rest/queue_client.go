package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/registry"
)

// QueueClient calls a QueueService. It is safe for concurrent use. Its methods return the
// errors of HTTP and of the service (see ResponseError), and end with their context.
type QueueClient struct {
	client *http.Client

	mu     sync.RWMutex
	host   string
	port   int
	prefix string
}

// NewQueueClient returns a client for the service that is mounted below a prefix of the
// server at a host, such as http://localhost, and a port. It returns an error for arguments
// that SetHost, SetPort or SetPrefix refuses.
func NewQueueClient(host string, port int, prefix string) (*QueueClient, error) {
	return NewQueueClientFromExisting(&http.Client{}, host, port, prefix)
}

// NewQueueClientFromExisting is like NewQueueClient with a given HTTP client, for instance
// one that authenticates. It returns an error for a nil client.
func NewQueueClientFromExisting(client *http.Client, host string, port int, prefix string) (*QueueClient, error) {
	if client == nil {
		return nil, errors.New("making a queue client: the HTTP client must not be nil")
	}
	c := &QueueClient{client: client}
	if err := errors.Join(c.SetHost(host), c.SetPort(port), c.SetPrefix(prefix)); err != nil {
		return nil, fmt.Errorf("making a queue client: %w", err)
	}
	return c, nil
}

// Host returns the host, with its scheme.
func (c *QueueClient) Host() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.host
}

// SetHost changes the host. It must have the form http://name or https://name, optionally
// followed by a path that precedes the prefix. One slash at the end is removed. For any
// other host SetHost returns an error and changes nothing.
func (c *QueueClient) SetHost(host string) error {
	parsed, err := url.Parse(host)
	valid := err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Hostname() != "" && parsed.Port() == "" &&
		parsed.RawQuery == "" && parsed.Fragment == "" && parsed.User == nil
	if !valid {
		return fmt.Errorf("host must be of the form http://name or https://name, and a path may follow (is %q)", host)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = strings.TrimSuffix(host, "/")
	return nil
}

// Port returns the port.
func (c *QueueClient) Port() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.port
}

// defaultPort is the port of a client that was given an invalid one.
const defaultPort = 3000

// SetPort changes the port. Port 80 is left out of the URLs of requests, even if the
// scheme of the host is https. If the port is not from 1 to 65535, SetPort returns an
// error and sets the port to 3000.
func (c *QueueClient) SetPort(port int) error {
	var err error
	if port < 1 || port > 65535 {
		err = fmt.Errorf("port must be from 1 to 65535 (is %d)", port)
		port = defaultPort
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.port = port
	return err
}

// Prefix returns the prefix, without slashes at its ends.
func (c *QueueClient) Prefix() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.prefix
}

// SetPrefix changes the prefix, which may be empty. Slashes at its ends are removed. If it
// is not a valid path, SetPrefix returns an error and changes nothing.
func (c *QueueClient) SetPrefix(prefix string) error {
	prefix = strings.Trim(prefix, "/")
	parsed, err := url.Parse("/" + prefix)
	if err != nil || parsed.EscapedPath() != "/"+prefix {
		return fmt.Errorf("prefix must be a path, escaped where that is needed (is %q)", prefix)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prefix = prefix
	return nil
}

// call calls a route of the service.
func (c *QueueClient) call(ctx context.Context, method, path string, body, result any, also ...int) (status int, err error) {
	return c.remote().call(ctx, method, path, body, result, also...)
}

func (c *QueueClient) remote() remote {
	c.mu.RLock()
	defer c.mu.RUnlock()
	scheme, rest, _ := strings.Cut(c.host, "://")
	name, path, hasPath := strings.Cut(rest, "/")
	if c.port != 80 {
		name += ":" + strconv.Itoa(c.port)
	}
	if hasPath {
		name += "/" + path
	}
	return newRemote(c.client, scheme+"://"+name+"/"+c.prefix)
}

func (c *QueueClient) status(ctx context.Context) (status queueStatus, err error) {
	_, err = c.call(ctx, http.MethodGet, "/v1/status", nil, &status)
	return status, err
}

// Running reports whether the queue has been started.
func (c *QueueClient) Running(ctx context.Context) (bool, error) {
	status, err := c.status(ctx)
	return status.QueueRunning, err
}

// PendingJobs returns the number of jobs that have not started. With an error it is -1.
func (c *QueueClient) PendingJobs(ctx context.Context) (int, error) {
	status, err := c.status(ctx)
	if err != nil {
		return -1, err
	}
	return status.PendingJobs, nil
}

// SubmitJob puts a job into the queue, and returns its ID. The type must be registered
// here and in the service. If another job has its ID, unique key or enqueue scope, the
// error wraps an *amboy.DuplicateJobError.
func (c *QueueClient) SubmitJob(ctx context.Context, j amboy.Job) (string, error) {
	form, err := registry.MakeJobInterchange(j, amboy.JSON)
	if err != nil {
		return "", fmt.Errorf("submitting a job: %w", err)
	}
	var answer created
	_, err = c.call(ctx, http.MethodPost, "/v1/job/create", form, &answer)
	if err != nil {
		return "", fmt.Errorf("submitting job %q: %w", j.ID(), err)
	}
	return answer.ID, nil
}

// FetchJob returns a copy of a job. Its type must be registered here. If the service's
// queue holds jobs by reference, a job can be fetched only after it has ended.
func (c *QueueClient) FetchJob(ctx context.Context, id string) (amboy.Job, error) {
	var form registry.JobInterchange
	err := notEmpty("ID", id)
	if err == nil {
		_, err = c.call(ctx, http.MethodGet, routePath("/v1/job/{}", id), nil, &form)
	}
	if err != nil {
		return nil, fmt.Errorf("fetching job %q: %w", id, err)
	}
	return form.Resolve(amboy.JSON)
}

// JobComplete reports whether a job has ended and will not be retried. It returns an
// error for which amboy.IsJobNotFoundError is true if the job does not exist.
func (c *QueueClient) JobComplete(ctx context.Context, id string) (bool, error) {
	var status jobStatus
	err := notEmpty("ID", id)
	if err == nil {
		_, err = c.call(ctx, http.MethodGet, routePath("/v1/job/status/{}", id), nil, &status, http.StatusBadRequest)
	}
	if err != nil {
		return false, fmt.Errorf("reading the status of job %q: %w", id, err)
	}
	if !status.Exists {
		return false, amboy.NewJobNotFoundErrorf("reading the status of job %q: %s", id, status.Error)
	}
	return status.Completed, nil
}

// MarkJobComplete marks a job complete, as management.Manager.CompleteJob does.
func (c *QueueClient) MarkJobComplete(ctx context.Context, id string) error {
	err := c.remote().complete(ctx, routePath("/v1/jobs/mark_complete/id/{}", id), notEmpty("ID", id))
	if err != nil {
		return fmt.Errorf("marking job %q complete: %w", id, err)
	}
	return nil
}

// Wait waits until a job has ended and will not be retried, and then returns true. It
// returns false if ctx ends first, the job does not exist, or the request fails.
func (c *QueueClient) Wait(ctx context.Context, id string) bool {
	return id != "" && c.waitFor(ctx, routePath("/v1/job/wait/{}", id))
}

// WaitAll waits until all jobs of the queue have ended and none is to be retried, and then
// returns true. It returns false if ctx ends first or the request fails.
func (c *QueueClient) WaitAll(ctx context.Context) bool {
	return c.waitFor(ctx, "/v1/status/wait")
}

// waitFor repeats a request that waits, until the service reports the end.
func (c *QueueClient) waitFor(ctx context.Context, route string) bool {
	for ctx.Err() == nil {
		query := url.Values{"timeout": {DefaultWait.String()}}
		begin := time.Now()
		var answer struct{}
		status, err := c.call(ctx, http.MethodGet, route+"?"+query.Encode(), nil, &answer, http.StatusRequestTimeout)
		if err != nil {
			return false
		}
		if status == http.StatusOK {
			return true
		}
		if sleep.For(ctx, time.Until(begin.Add(minPollInterval))) != nil {
			return false
		}
	}
	return false
}

// minPollInterval is the minimum time between two requests of one wait.
const minPollInterval = time.Second
