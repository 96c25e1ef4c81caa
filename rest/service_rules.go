package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/publictext"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/web"
)

// newServiceHandler serves the routes of a service. Without options it allows every
// request. queueName returns the name of the service's queue; it is nil if there may be
// several.
func newServiceHandler(routes map[string]http.HandlerFunc, queueName func() string, opts []Option) http.Handler {
	if len(opts) == 0 {
		return web.NewOpenHandler(routes, refuse)
	}
	var o options
	for _, option := range opts {
		option(&o)
	}
	o.checkForService()
	rules := &serviceRules{
		guard: guard.New(o.guard), audit: o.audit, queueName: queueName,
		waiting: web.NewWaiting(cmp.Or(o.workers.WaitingOfClient, DefaultWaitingOfClient)),
	}
	guarded := map[string]http.HandlerFunc{}
	for pattern, serve := range routes {
		guarded[pattern] = rules.guarded(actionOf(pattern), serve)
	}
	return o.mounted(web.NewHandler(guarded, refuse), refuse)
}

// checkForService panics for options that a service does not support.
func (o options) checkForService() {
	for name, given := range map[string]bool{
		"Tenant": o.guard.Tenant != nil, "MaskArgs": o.guard.MaskArgs != nil, "Title": o.title != "",
		"CreateOutside": o.guard.CreateOutside, "Workers": o.workers.Dispatcher != nil,
	} {
		if given {
			panic("rest: the option " + name + " is not for a service")
		}
	}
}

// actionOf returns the action of a route of a service.
func actionOf(pattern string) Action {
	switch {
	case strings.HasPrefix(pattern, "GET "):
		return ActionRead
	case strings.HasSuffix(pattern, "/job/create"):
		return ActionCreate
	case strings.Contains(pattern, "/mark_complete/"):
		return Action(management.Complete)
	default: // DELETE aborts
		return Action(management.Cancel)
	}
}

// serviceRules authorizes and records the requests to a service.
type serviceRules struct {
	guard     *guard.Guard
	audit     management.Recorder // nil for none
	queueName func() string       // nil if there may be several queues
	waiting   *web.Waiting
}

// serviceCall is a request to a service with rules.
type serviceCall struct {
	*serviceRules
	entry   management.AuditEntry
	allowed bool // whether the request was authorized
}

type serviceCallKey struct{}

// guarded authorizes a request before a route serves it, and records it afterwards.
func (s *serviceRules) guarded(action Action, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		call := &serviceCall{serviceRules: s, entry: management.AuditEntry{What: string(action), JobID: r.PathValue("name"), Detail: r.Method + " " + r.URL.Path}}
		access := Access{Action: action, ID: call.entry.JobID, AllQueues: s.queueName == nil}
		if s.queueName != nil {
			access.Queue = s.queueName()
			call.entry.Queue = access.Queue
		}
		if action != ActionCreate { // is authorized after its body is read
			if err := s.guard.Allow(r, access); err != nil {
				refuse(w, r, err)
				return
			}
			call.allowed = true
		}
		answer := &statusWriter{ResponseWriter: w, status: http.StatusInternalServerError} // the status if it panics
		ctx := management.WithActor(r.Context(), s.guard.Actor(r))
		if s.audit != nil && action != ActionRead {
			defer func() { call.record(ctx, answer.status) }()
		}
		serve(answer, r.WithContext(context.WithValue(ctx, serviceCallKey{}, call)))
	}
}

// callOf returns the call that a request makes; nil if the service has no rules.
func callOf(r *http.Request) *serviceCall {
	call, _ := r.Context().Value(serviceCallKey{}).(*serviceCall)
	return call
}

// isAllowed reports whether a request was authorized, or the service has no rules.
func isAllowed(r *http.Request) bool {
	call := callOf(r)
	return call == nil || call.allowed
}

// mayRead reports whether a request may also read the state of the queue.
func mayRead(r *http.Request) bool { return allowStill(r, "") == nil }

// allowStill authorizes a request to read now: it may have waited for long since it was authorized. id is the ID of the
// job that it reads; empty if it reads the state of the queue.
func allowStill(r *http.Request, id string) error {
	call := callOf(r)
	if call == nil {
		return nil
	}
	return call.guard.Allow(r, Access{Action: ActionRead, Queue: call.queueName(), ID: id})
}

// mayReveal reports whether a request may read the jobs of a queue, which may be encrypted.
func mayReveal(r *http.Request, q amboy.Queue, id string) bool {
	store, ok := queue.StoreOf(q)
	if !ok || len(store.Queues()) != 1 || !store.HasCodec(store.Queues()[0]) {
		return true
	}
	call := callOf(r)
	return call != nil && call.guard.MayReveal(r, call.queueName(), id)
}

// mayWait returns the context of a request that waits for up to a time, which ends when the server shuts
// down. It counts the request, if the service has rules. leave must be called when it no longer waits.
func (s *QueueService) mayWait(w http.ResponseWriter, r *http.Request, wait time.Duration) (waiting context.Context, leave func(), err error) {
	left := func() {}
	if call := callOf(r); call != nil {
		left, err = call.waiting.Enter(call.guard.Client(r))
		if err != nil {
			return nil, nil, err
		}
	}
	web.LetWait(w, wait)
	waiting, cancel := context.WithTimeout(r.Context(), wait)
	forget := context.AfterFunc(s.lives.Of(r), cancel)
	return waiting, func() {
		forget()
		cancel()
		left()
	}, nil
}

// allowCreate authorizes putting a job, if the service has rules.
func allowCreate(r *http.Request, form *registry.JobInterchange) error {
	call := callOf(r)
	if call == nil {
		return nil
	}
	call.entry.JobID = form.Name
	err := call.guard.AllowCreate(r, management.NewJob{Queue: call.queueName(), ID: form.Name, Type: form.Type})
	if err != nil {
		return err
	}
	// Other managers may reveal something about the server, such as which files exist.
	if d := form.Dependency; d != nil && d.Type != dependency.NewAlways().Type().Name {
		return &web.Failure{Status: http.StatusForbidden, Kind: web.KindDenied, Text: "only dependencies on other jobs are allowed", Field: "dependency"}
	}
	call.allowed = true
	return nil
}

// record writes the outcome of a call to the audit list. It knows only the status of the
// answer.
func (c *serviceCall) record(ctx context.Context, status int) {
	var failure error
	switch {
	case status == http.StatusForbidden || status == http.StatusUnauthorized: // denied requests are not recorded, as for Handler
		return
	case status >= http.StatusInternalServerError || status == http.StatusRequestTimeout:
		failure = errors.New("the service failed")
	case status >= http.StatusBadRequest:
		failure = publictext.Errorf("answered with status %d", status)
	case c.entry.JobID != "":
		c.entry.Done = 1
	}
	if err := c.audit.Record(ctx, c.entry, failure); errors.Is(err, management.ErrNotRecorded) {
		logging.Error(ctx, message.Fields{
			"message": "could not write the action of a service to the audit list",
			"what":    c.entry.What,
			"queue":   c.entry.Queue,
			"job_id":  c.entry.JobID,
			"error":   err.Error(),
		})
	}
}

// statusWriter records the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status  int
	written bool
}

func (w *statusWriter) WriteHeader(status int) {
	w.status, w.written = status, true
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(body []byte) (int, error) {
	if !w.written {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(body)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
