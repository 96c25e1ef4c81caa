package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/registry"
)

// MaskArgs returns what may be shown of the arguments or the result of a job: JSON, or nil
// to hide them.
type MaskArgs func(job management.JobRef, jobType string, args json.RawMessage) json.RawMessage

// Options are the rules.
type Options struct {
	// Inspector is the inspector to guard.
	Inspector management.Inspector
	// Authorize decides what a request may do. Default: nothing.
	Authorize Authorize
	// Tenant names the only queue that is visible to a request. If it returns an empty name, or
	// panics, nothing is visible. Default: all queues are visible.
	Tenant func(r *http.Request) string
	// MaskArgs redacts arguments and results. Default: no redaction.
	MaskArgs MaskArgs
	// RevealEncrypted lets requests that Authorize allows to Reveal read the arguments and
	// results of encrypted jobs. Default: they are hidden from all.
	RevealEncrypted bool
	// CreateTypes are the types of jobs that may be put. Default: none.
	CreateTypes []string
	// CreateOutside allows jobs for outside workers to be put, of any type that is not
	// registered.
	CreateOutside bool
	// Actor names the actor of a request, for the audit list. Default: no name.
	Actor func(r *http.Request) string
}

// Guard enforces the rules. It is safe for concurrent use.
type Guard struct {
	opts    Options
	watches watches
}

// New returns a guard.
func New(opts Options) *Guard {
	if opts.Authorize == nil {
		opts.Authorize = denyAll
	}
	if opts.Actor == nil {
		opts.Actor = func(*http.Request) string { return "" }
	}
	return &Guard{opts: opts, watches: watches{inspector: opts.Inspector}}
}

// Inspector returns an inspector limited to what a request may read and change. Its methods
// return a *DeniedError for anything else, or an *UnauthenticatedError.
func (g *Guard) Inspector(r *http.Request) management.Inspector {
	return g.of(r)
}

// Check returns a *DeniedError if a request may not perform an action on all queues that are
// visible to it.
func (g *Guard) Check(r *http.Request, action Action) error {
	return g.of(r).allow(r.Context(), action)
}

// Allow returns a *DeniedError if a request may not do something.
func (g *Guard) Allow(r *http.Request, access Access) error {
	return g.of(r).ask(r.Context(), access)
}

// AllowCreate returns a *DeniedError if a request may not put a job.
func (g *Guard) AllowCreate(r *http.Request, job management.NewJob) error {
	return g.of(r).allowCreate(r.Context(), job)
}

// AllowWork returns a *DeniedError or an *UnauthenticatedError if a request may not work on jobs of
// some types in some queues.
func (g *Guard) AllowWork(r *http.Request, queues, types []string) error {
	asked := g.of(r)
	for _, queue := range queues {
		for _, jobType := range types {
			if err := asked.allowJob(r.Context(), Access{Action: Work, Queue: queue, Type: jobType}); err != nil {
				return err
			}
		}
	}
	return nil
}

// MayReveal reports whether a request may read the arguments and the result of an encrypted
// job.
func (g *Guard) MayReveal(r *http.Request, queue, id string) bool {
	return g.of(r).mayReveal(r.Context(), queue, id)
}

// Client identifies the client of a request, for limits.
func (g *Guard) Client(r *http.Request) string { return (&guarded{Guard: g, request: r}).client() }

// Life returns a context that ends when the server of a request shuts down.
func (g *Guard) Life(r *http.Request) context.Context { return g.watches.lives.Of(r) }

// Actor returns the actor of a request, for the audit list.
func (g *Guard) Actor(r *http.Request) string { return g.opts.Actor(r) }

// May reports whether a request may perform an action in a queue, or in all queues if queue
// is empty. It is for showing what is possible: the Inspector checks again.
func (g *Guard) May(r *http.Request, action Action, queue string) bool {
	request := g.of(r)
	if queue == "" {
		return request.allow(r.Context(), action) == nil
	}
	return request.allow(r.Context(), action, queue) == nil
}

// maxReadable is the maximum number of queues that Readable returns, and askedQueues that of the
// queues that it asks about.
const (
	maxReadable = management.MaxFilterValues
	askedQueues = management.MaxLimit
)

// Readable returns the queues that a request may read, if it may not read all: of the first 1,000
// queues by name, at most 100.
func (g *Guard) Readable(r *http.Request) []string {
	asked := g.of(r)
	if asked.ofTenant {
		return nil // allow does it
	}
	page, err := g.opts.Inspector.FindQueues(r.Context(), management.QueueFilter{}, management.PageRequest{Limit: askedQueues})
	if err != nil {
		return nil
	}
	var names []string
	for _, queue := range page.Queues {
		if len(names) < maxReadable && asked.ask(r.Context(), Access{Action: Read, Queue: queue.Name}) == nil {
			names = append(names, queue.Name)
		}
	}
	return names
}

// MayPut reports whether a request may choose the arguments of jobs of a type in a queue: whether
// it may put them, if the action is Create, or edit them. It is for showing what is possible.
func (g *Guard) MayPut(r *http.Request, action Action, queue, jobType string) bool {
	asked, access := g.of(r), Access{Action: action, Queue: queue, Type: jobType}
	if asked.allowType(access, true) != nil {
		return false
	}
	if action == Edit {
		access.Type = ""
	}
	return asked.allowJob(r.Context(), access) == nil
}

// of returns the Inspector of a request.
func (g *Guard) of(r *http.Request) *guarded {
	request := &guarded{Guard: g, request: r, inner: g.opts.Inspector}
	if g.opts.Tenant != nil {
		request.ofTenant, request.tenant = true, g.tenantOf(r.Context(), r)
	}
	return request
}

// tenantOf calls the Tenant function of the program. If that panics, the name is empty.
func (g *Guard) tenantOf(ctx context.Context, r *http.Request) (name string) {
	defer func() {
		if value := recover(); value != nil {
			name = ""
			logging.Error(ctx, message.Fields{
				"message": "the function that names the tenant of a request panicked; the request is denied",
				"panic":   value,
				"stack":   string(debug.Stack()),
			})
		}
	}()
	return g.opts.Tenant(r)
}

// guarded is the Inspector of a request.
type guarded struct {
	*Guard
	request *http.Request
	inner   management.Inspector
	// If ofTenant is true, only the queue with the name tenant is visible, or none if that is
	// empty.
	ofTenant bool
	tenant   string
	// asking serializes the calls of Authorize for one request, because reading a request
	// may change it, as r.FormValue does.
	asking sync.Mutex
}

// allow authorizes an action on some queues, or on all visible queues if none are named. It
// must be called before anything else is done.
func (g *guarded) allow(ctx context.Context, action Action, queues ...string) error {
	if g.ofTenant {
		if err := g.refuseUnauthenticated(ctx, Access{Action: action, AllQueues: true}); err != nil {
			return err
		}
		for _, queue := range queues {
			if err := g.checkOwn(queue); err != nil {
				return err
			}
		}
		if g.tenant == "" {
			return &DeniedError{Access: Access{Action: action, AllQueues: true}, Reason: errNoTenant}
		}
		queues = []string{g.tenant}
	}
	if len(queues) == 0 {
		return g.ask(ctx, Access{Action: action, AllQueues: true})
	}
	for _, queue := range queues {
		if err := g.ask(ctx, Access{Action: action, Queue: queue}); err != nil {
			return err
		}
	}
	return nil
}

// allowJob authorizes an action on one job.
func (g *guarded) allowJob(ctx context.Context, access Access) error {
	if err := g.refuseUnauthenticated(ctx, access); err != nil {
		return err
	}
	if err := g.checkOwn(access.Queue); err != nil {
		return err
	}
	return g.ask(ctx, access)
}

// refuseUnauthenticated returns an *UnauthenticatedError for a request of no tenant, if that is
// because its sender is unknown.
func (g *guarded) refuseUnauthenticated(ctx context.Context, access Access) error {
	if !g.ofTenant || g.tenant != "" {
		return nil
	}
	var unauthenticated *UnauthenticatedError
	if err := g.ask(ctx, access); errors.As(err, &unauthenticated) {
		return err
	}
	return nil
}

// errNoTenant is the reason if the request is of no tenant.
var errNoTenant = errors.New("the request belongs to no tenant")

// errType is the reason if CreateTypes does not contain the type of a job.
var errType = errors.New("the option CreateTypes does not allow the type")

// allowCreate authorizes putting a job, and checks its type.
func (g *guarded) allowCreate(ctx context.Context, job management.NewJob) error {
	access := Access{Action: Create, Queue: job.Queue, ID: job.ID, Type: job.Type}
	if err := g.allowJob(ctx, access); err != nil {
		return err
	}
	if job.Type == "" {
		return &management.InvalidArgumentError{Field: "type", Rule: "must not be empty"}
	}
	return g.allowType(access, job.Outside)
}

// allowType returns an error if the program does not let clients choose the arguments of jobs of a
// type.
func (g *guarded) allowType(access Access, outside bool) error {
	isOutside := g.opts.CreateOutside && !isRegistered(access.Type)
	switch {
	case slices.Contains(g.opts.CreateTypes, access.Type), isOutside && outside:
		return nil
	case isOutside:
		return &DeniedError{Access: access, Reason: errType, Cause: `the service does not know this type; if workers outside of Go run it, set "outside" (on the command line --outside)`}
	default:
		return &DeniedError{Access: access, Reason: errType, Cause: "the service does not let clients create jobs of this type"}
	}
}

func isRegistered(jobType string) bool {
	_, err := registry.GetJobFactory(jobType)
	return err == nil
}

// ask calls the Authorize function of the program. If that panics, access is denied.
func (g *guarded) ask(ctx context.Context, access Access) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &DeniedError{Access: access, Reason: fmt.Errorf("the Authorize function panicked: %v", value)}
			logging.Error(ctx, message.Fields{
				"message": "the Authorize function panicked; the request is denied",
				"access":  access.String(),
				"panic":   value,
				"stack":   string(debug.Stack()),
			})
		}
	}()
	g.asking.Lock()
	defer g.asking.Unlock()
	reason := g.opts.Authorize(g.request, access)
	switch {
	case reason == nil:
		return nil
	case errors.Is(reason, ErrUnauthenticated):
		return NewUnauthenticatedError(g.request, reason)
	default:
		return &DeniedError{Access: access, Reason: reason}
	}
}

// checkOwn returns an error for a queue of another tenant, the same as for an unknown queue.
func (g *guarded) checkOwn(queue string) error {
	if g.isOwn(queue) {
		return nil
	}
	return fmt.Errorf("queue %q: %w", queue, management.ErrUnknownQueue)
}

func (g *guarded) isOwn(queue string) bool {
	return !g.ofTenant || queue == g.tenant && g.tenant != ""
}

// visibleQueues returns the queues of a request, or the tenant's queue if there is a tenant.
func (g *guarded) visibleQueues(queues []string) []string {
	if g.ofTenant {
		return []string{g.tenant}
	}
	return queues
}

// onlyOwn returns the items that belong to the tenant; all if there is no tenant.
func onlyOwn[T any](g *guarded, things []T, queueOf func(T) string) []T {
	if !g.ofTenant {
		return things
	}
	own := make([]T, 0, len(things))
	for _, thing := range things {
		if g.isOwn(queueOf(thing)) {
			own = append(own, thing)
		}
	}
	return own
}

// withActor returns a context that carries the actor of the request.
func (g *guarded) withActor(ctx context.Context) context.Context {
	return management.WithActor(ctx, g.opts.Actor(g.request))
}

// client identifies the client of a request: by its actor if there is one, and otherwise by
// its address. For IPv6 it is the /64 network.
func (g *guarded) client() string {
	if actor := g.opts.Actor(g.request); actor != "" {
		return "actor " + actor
	}
	at, err := netip.ParseAddrPort(g.request.RemoteAddr)
	if err != nil {
		return g.request.RemoteAddr
	}
	address := at.Addr().Unmap().WithZone("")
	if network, err := address.Prefix(64); err == nil && address.Is6() {
		return network.String()
	}
	return address.String()
}

func (g *guarded) mayReveal(ctx context.Context, queue, id string) bool {
	return g.opts.RevealEncrypted && g.allowJob(ctx, Access{Action: Reveal, Queue: queue, ID: id}) == nil
}

// The texts shown in place of hidden arguments.
const (
	hiddenByMask     = "masked"
	maskFailed       = "masking failed"
	hiddenFromWriter = "not allowed to read"
)

// mask redacts the arguments and the result of a job.
func (g *guarded) mask(ctx context.Context, job *management.Job) {
	if g.opts.MaskArgs == nil {
		return
	}
	g.maskArgs(ctx, &job.JobSummary)
	if job.Result != nil {
		job.Result, job.ResultHidden = g.masked(ctx, &job.JobSummary, job.Result)
	}
}

// maskArgs redacts the arguments of a job.
func (g *guarded) maskArgs(ctx context.Context, job *management.JobSummary) {
	if g.opts.MaskArgs != nil && job.Args != nil {
		stored := job.Args
		job.Args, job.ArgsHidden = g.masked(ctx, job, stored)
		job.ArgsMasked = job.ArgsHidden == "" && !bytes.Equal(job.Args, stored)
	}
}

// masked returns what may be shown of a value, or nil and the reason why nothing may.
func (g *guarded) masked(ctx context.Context, job *management.JobSummary, value json.RawMessage) (shown json.RawMessage, hidden string) {
	defer func() {
		if panicked := recover(); panicked != nil {
			g.logMask(ctx, job, fmt.Errorf("panicked: %v\n%s", panicked, debug.Stack()))
			shown, hidden = nil, maskFailed
		}
	}()
	shown = g.opts.MaskArgs(job.JobRef, job.Type, bytes.Clone(value))
	if shown == nil {
		return nil, hiddenByMask
	}
	if !json.Valid(shown) {
		g.logMask(ctx, job, errors.New("returned invalid JSON"))
		return nil, maskFailed
	}
	return shown, ""
}

func (g *guarded) logMask(ctx context.Context, job *management.JobSummary, err error) {
	logging.Error(ctx, message.Fields{
		"message": "the MaskArgs function failed; the value is hidden",
		"queue":   job.Queue,
		"job_id":  job.ID,
		"type":    job.Type,
		"error":   err.Error(),
	})
}

// isOwnEdge reports whether both ends of an edge are among the jobs that are shown.
func isOwnEdge(jobs []management.GraphJob, edge management.GraphEdge) bool {
	has := func(id string) bool {
		return slices.ContainsFunc(jobs, func(j management.GraphJob) bool { return j.ID == id })
	}
	return has(edge.From) && has(edge.To)
}
