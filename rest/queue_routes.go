package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest/internal/web"
)

// queueStatus describes the queue.
type queueStatus struct {
	Text              string   `json:"string"`
	QueueRunning      bool     `json:"queue_running"`
	PendingJobs       int      `json:"pending_jobs"`
	SupportedJobTypes []string `json:"supported_job_types"`
}

// created is the answer to a request to put a job.
type created struct {
	Registered bool        `json:"registered"`
	QueueDepth int         `json:"queue_depth"`
	ID         string      `json:"id"`
	Error      string      `json:"error"`
	Status     queueStatus `json:"status"`
	// Field names the invalid field.
	Field string `json:"field,omitempty"`
	// Kind is set for a duplicate, because other invalid jobs have the same status.
	Kind      web.Kind       `json:"kind,omitempty"`
	Duplicate *web.Duplicate `json:"duplicate,omitempty"`
}

// jobStatus describes a job.
type jobStatus struct {
	Exists      bool                     `json:"job_exists"`
	Completed   bool                     `json:"completed"`
	ID          string                   `json:"id"`
	JobsPending int                      `json:"jobs_pending"`
	Error       string                   `json:"error"`
	Job         *registry.JobInterchange `json:"job"`
}

// Handler serves these routes, relative to the prefix that the program removes:
//
//	GET  /, /v1/status           the state of the queue
//	GET  /v1/status/wait         the same after all jobs have ended; 408 at ?timeout=10s
//	POST /v1/job/create          puts a job, in its interchange form
//	GET  /v1/job/{name}          a job in its interchange form
//	GET  /v1/job/status/{name}   the status of a job; 400 if the job does not exist
//	GET  /v1/job/wait/{name}     the same after it has ended; 408 at ?timeout=10s
//	POST /v1/jobs/mark_complete/id/{name}   as in a ManagementService
//
// The state is {"string","queue_running","pending_jobs","supported_job_types"}, and its "string" is
// "ok" or "degraded". The status of a job is
// {"job_exists","completed","id","jobs_pending","error","job"}. A job that was put is answered with
// {"registered","queue_depth","id","error","status"}, and with 400 if it is invalid or a duplicate.
// A duplicate has the "kind" "duplicate-job" or "duplicate-scope", and a "duplicate". A new job has
// not run, whatever its form says about status, start, end and attempt.
//
// A job by reference is shown only after it has ended: until then GET /v1/job/{name} is refused
// with status 409, and the "job" of its status is null.
//
// Without options it allows every request: any client can run a job of any registered
// type, with arguments of its choice. With options it follows the rules of the function
// Handler: see Authorize, CreateTypes, Actor, Audit, Hosts and RevealEncrypted. If the queue has
// a codec, jobs are not shown without RevealEncrypted, not even without options: GET /v1/job/{name}
// is refused with status 403, and the status of a job lacks the job. With options a job may depend
// only on other jobs, because other dependency managers may reveal, for instance, which files exist;
// and a request that puts a job learns the state of the queue only if it may read. The options Tenant,
// TenantOf, MaskArgs, Title, CreateOutside and Workers panic here. While the service has no queue, it
// answers with status 503.
func (s *QueueService) Handler(opts ...Option) http.Handler {
	return newServiceHandler(map[string]http.HandlerFunc{
		"GET /{$}":                  s.getStatus,
		"GET /v1/status":            s.getStatus,
		"GET /v1/status/wait":       s.waitForAll,
		"POST /v1/job/create":       s.createJob,
		"GET /v1/job/{name}":        s.getJob,
		"GET /v1/job/status/{name}": s.getJobStatus,
		"GET /v1/job/wait/{name}":   s.waitForJob,
		"POST /v1/jobs/mark_complete/id/{name}": func(w http.ResponseWriter, r *http.Request) {
			q, err := s.ready()
			if err != nil {
				refuse(w, r, err)
				return
			}
			NewManagementService(management.NewQueueManager(q)).completeJob(w, r)
		},
	}, s.queueName, opts)
}

// queueName returns the name of the queue as an Inspector uses it; empty without a queue.
func (s *QueueService) queueName() string {
	q := s.Queue()
	if q == nil {
		return ""
	}
	if store, ok := queue.StoreOf(q); ok && len(store.Queues()) == 1 {
		return store.Queues()[0]
	}
	return q.ID()
}

var errNoQueue = &web.Failure{Status: http.StatusServiceUnavailable, Text: "the service has no queue"}

func (s *QueueService) ready() (amboy.Queue, error) {
	if q := s.Queue(); q != nil {
		return q, nil
	}
	return nil, errNoQueue
}

// status describes the queue, even if there is none.
func (s *QueueService) status(ctx context.Context) queueStatus {
	status := queueStatus{Text: "degraded", SupportedJobTypes: []string{}}
	for name := range registry.JobTypeNames() {
		status.SupportedJobTypes = append(status.SupportedJobTypes, name)
	}
	q := s.Queue()
	if q == nil {
		return status
	}
	stats := q.Stats(ctx)
	status.QueueRunning = q.Info().Started
	status.PendingJobs = stats.Pending
	if status.QueueRunning && stats.Err == nil {
		status.Text = "ok"
	}
	return status
}

func (s *QueueService) getStatus(w http.ResponseWriter, r *http.Request) {
	web.WriteJSON(w, r, http.StatusOK, s.status(r.Context()))
}

func (s *QueueService) waitForAll(w http.ResponseWriter, r *http.Request) {
	q, err := s.ready()
	if err != nil {
		refuse(w, r, err)
		return
	}
	wait, err := timeout(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	waiting, leave, err := s.mayWait(w, r, wait)
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer leave()
	code := http.StatusRequestTimeout
	if amboy.Wait(waiting, q) { //nolint:contextcheck // It also ends with the server.
		code = http.StatusOK
	}
	err = allowStill(r, "")
	if err != nil {
		refuse(w, r, err)
		return
	}
	web.WriteJSON(w, r, code, s.status(r.Context()))
}

func (s *QueueService) createJob(w http.ResponseWriter, r *http.Request) {
	id, err := s.create(w, r)
	if !isAllowed(r) {
		refuse(w, r, err)
		return
	}
	answer := created{Registered: err == nil, ID: id, Status: queueStatus{SupportedJobTypes: []string{}}}
	if mayRead(r) {
		answer.Status = s.status(r.Context())
		answer.QueueDepth = answer.Status.PendingJobs
	}
	code := http.StatusOK
	if err != nil {
		f := web.FailureOf(r.Context(), err)
		web.LogFailure(r, f, err)
		code, answer.Error, answer.Field = f.Status, f.Text, f.Field
		if amboy.IsDuplicateJobError(err) {
			code, answer.Kind, answer.Duplicate = http.StatusBadRequest, f.Kind, f.Duplicate
		}
	}
	web.WriteJSON(w, r, code, answer)
}

// putTimeout is how long a request waits for space in the queue.
const putTimeout = 10 * time.Second

var errFull = &web.Failure{Status: http.StatusServiceUnavailable, Text: "the queue did not accept the job in time"}

// create puts the job in the body of a request.
func (s *QueueService) create(w http.ResponseWriter, r *http.Request) (id string, err error) {
	q, err := s.ready()
	if err != nil {
		return "", err
	}
	var form registry.JobInterchange
	err = web.ReadJSON(w, r, &form)
	if err != nil {
		return "", err
	}
	err = allowCreate(r, &form)
	if err != nil {
		return form.Name, err
	}
	j, err := newJob(&form)
	if err != nil {
		return form.Name, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), putTimeout)
	defer cancel()
	err = q.Put(ctx, j)
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		err = errFull
	}
	return j.ID(), err
}

// newJob decodes a job from its interchange form. It resets the fields that describe
// earlier runs.
func newJob(form *registry.JobInterchange) (amboy.Job, error) {
	if form.Name == "" {
		return nil, web.Invalid("name", form.Name, "must not be empty")
	}
	form.Group = ""
	form.Status = amboy.JobStatusInfo{}
	form.RetryInfo.NeedsRetry, form.RetryInfo.CurrentAttempt = false, 0
	form.RetryInfo.BaseJobID = form.Name
	form.TimeInfo.Start, form.TimeInfo.End = time.Time{}, time.Time{}
	form.Progress, form.Result = nil, nil
	j, err := form.Resolve(amboy.JSON)
	if err != nil {
		return nil, &web.Failure{Status: http.StatusBadRequest, Text: err.Error(), Field: fieldOf(err)}
	}
	// A type without setters takes its ID and type from the body, but the request was
	// authorized for those of the form.
	if j.ID() != form.Name {
		return nil, web.Invalid("job", j.ID(), "must have the ID of the form, "+form.Name)
	}
	if j.Type().Name != form.Type {
		return nil, web.Invalid("job", j.Type().Name, "must have the type of the form, "+form.Type)
	}
	return j, nil
}

// fieldOf names the field that makes an interchange form invalid.
func fieldOf(err error) string {
	var version *registry.VersionError
	switch {
	case errors.Is(err, registry.ErrUnknownType):
		return "type"
	case errors.As(err, &version):
		return "version"
	default:
		return "job"
	}
}

func (s *QueueService) getJob(w http.ResponseWriter, r *http.Request) {
	form, err := s.form(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	web.WriteJSON(w, r, http.StatusOK, form)
}

func (s *QueueService) form(r *http.Request) (*registry.JobInterchange, error) {
	q, err := s.ready()
	if err != nil {
		return nil, err
	}
	id, err := jobID(r)
	if err != nil {
		return nil, err
	}
	j, err := lookUp(r.Context(), q, id)
	if err != nil {
		return nil, err
	}
	if !isReadable(q, j) {
		return nil, &web.Failure{Status: http.StatusConflict, Text: fmt.Sprintf("job %q can be read only after it has ended, because its queue holds it by reference", id)}
	}
	if !mayReveal(r, q, id) {
		return nil, &web.Failure{Status: http.StatusForbidden, Kind: web.KindDenied, Text: fmt.Sprintf("job %q is encrypted, and the request may not read encrypted jobs", id)}
	}
	return registry.MakeJobInterchange(j, amboy.JSON)
}

// lookUp returns a job. The queue does not say why it has none: a read that ended with its
// request says nothing about the job.
func lookUp(ctx context.Context, q amboy.Queue, id string) (amboy.Job, error) {
	j, ok := q.Get(ctx, id)
	switch {
	case ok:
		return j, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("getting job %q: %w", id, ctx.Err())
	default:
		return nil, amboy.NewJobNotFoundErrorf("job %q does not exist", id)
	}
}

// isReadable reports whether the content of a job can be read. A job that its queue holds
// by reference may be changed by its run at the same time.
func isReadable(q amboy.Queue, j amboy.Job) bool {
	store, ok := queue.StoreOf(q)
	return ok && !store.ByReference() || hasEnded(j)
}

// hasEnded reports whether no attempt of a job runs or will follow.
func hasEnded(j amboy.Job) bool {
	status := j.Status()
	return status.Completed && !status.InProgress && !j.RetryInfo().ShouldRetry()
}

func (s *QueueService) getJobStatus(w http.ResponseWriter, r *http.Request) {
	s.answerJobStatus(w, r, func(amboy.Queue, amboy.Job) error { return nil })
}

//nolint:contextcheck // The wait also ends with the server.
func (s *QueueService) waitForJob(w http.ResponseWriter, r *http.Request) {
	wait, err := timeout(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	waiting, leave, err := s.mayWait(w, r, wait)
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer leave()
	s.answerJobStatus(w, r, func(q amboy.Queue, j amboy.Job) error {
		if !amboy.WaitJob(waiting, j, q) {
			return &web.Failure{Status: http.StatusRequestTimeout, Text: fmt.Sprintf("job %q has not ended yet", j.ID())}
		}
		return nil
	})
}

// waitFunc waits for a job. Its error becomes the answer.
type waitFunc func(q amboy.Queue, j amboy.Job) error

// answerJobStatus answers with the status of a job, after waiting.
func (s *QueueService) answerJobStatus(w http.ResponseWriter, r *http.Request, wait waitFunc) {
	q, err := s.ready()
	if err != nil {
		refuse(w, r, err)
		return
	}
	id, err := jobID(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	answer := jobStatus{ID: id}
	code := http.StatusOK
	if err := answer.read(r, q, wait); err != nil {
		f := web.FailureOf(r.Context(), err)
		if f.Kind == web.KindDenied || f.Kind == web.KindUnauthenticated {
			refuse(w, r, err)
			return
		}
		web.LogFailure(r, f, err)
		code, answer.Error = f.Status, f.Text
		if amboy.IsJobNotFoundError(err) {
			code = http.StatusBadRequest
		}
	}
	answer.JobsPending = q.Stats(r.Context()).Pending
	web.WriteJSON(w, r, code, answer)
}

// read waits, and sets the status of the job after that.
func (s *jobStatus) read(r *http.Request, q amboy.Queue, wait waitFunc) error {
	ctx := r.Context()
	j, err := lookUp(ctx, q, s.ID)
	if err != nil {
		return err
	}
	waited := wait(q, j)
	err = allowStill(r, s.ID)
	if err != nil {
		return err
	}
	if now, ok := q.Get(ctx, s.ID); ok {
		j = now
	}
	s.Exists, s.Completed = true, hasEnded(j)
	if err := j.Error(); err != nil {
		s.Error = err.Error()
	}
	if isReadable(q, j) && mayReveal(r, q, s.ID) {
		form, err := registry.MakeJobInterchange(j, amboy.JSON)
		if err != nil {
			return err
		}
		s.Job = form
	}
	return waited
}
