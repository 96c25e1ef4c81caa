package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/aside"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Workers are what the routes for outside workers need.
type Workers struct {
	// Dispatcher leases the jobs; nil if the routes are not served.
	Dispatcher *outside.Dispatcher
	// WaitingOfClient is the maximum number of requests of a client that wait for jobs.
	WaitingOfClient int
}

// Duration in the body of a request.
type duration = management.Duration

// LeaseBody asks for jobs.
type LeaseBody struct {
	Queues []string `json:"queues" minItems:"1" description:"The queues to take jobs of"`
	Types  []string `json:"types" minItems:"1" description:"The types of jobs that the worker can run"`
	Limit  int      `json:"limit,omitempty" minimum:"1" maximum:"1000" description:"The maximum number of jobs; the default is 1"`
	Wait   duration `json:"wait,omitempty" description:"How long to wait for a job, at most 10m; the default is not to wait"`
	Lease  duration `json:"lease,omitempty" description:"How long the leases last unless they are renewed, from 100ms to 24h; the default is 1m"`
	Worker string   `json:"worker,omitempty" maxLength:"1024" description:"A name of the worker for operators"`
	// Acknowledge is done first.
	Acknowledge []Acknowledgement `json:"acknowledge,omitempty" maxItems:"1000" description:"Acknowledgements of earlier jobs, which are done first"`
}

// Leased is the answer to a LeaseBody.
type Leased struct {
	// Jobs are the jobs that were leased; empty if none was ready in time.
	Jobs []LeasedJob `json:"jobs"`
	// Acknowledged are the answers to the acknowledgements, in their order.
	Acknowledged []Acknowledged `json:"acknowledged,omitempty" description:"The answers to the acknowledgements, in their order"`
	// Problem is why no jobs were leased, after acknowledgements that may be stored.
	Problem *Problem `json:"problem,omitempty" description:"Why no jobs were leased, if the request also had acknowledgements; they are answered all the same"`
}

// LeasedJob is a leased job.
type LeasedJob struct {
	Token       outside.Token     `json:"token" description:"Identifies the lease in acknowledgements and heartbeats"`
	Queue       string            `json:"queue"`
	ID          string            `json:"id"`
	Type        string            `json:"type"`
	Version     int               `json:"version"`
	Attempt     int               `json:"attempt" minimum:"1" description:"The number of the attempt, from 1"`
	MaxAttempts int               `json:"max_attempts"`
	Args        json.RawMessage   `json:"args,omitempty" description:"The payload, if it is JSON"`
	Bytes       *[]byte           `json:"bytes,omitempty" description:"The payload in base64, if it is not JSON"`
	LeaseEnds   time.Time         `json:"lease_ends" description:"When the lease runs out unless it is renewed"`
	RunBy       time.Time         `json:"run_by,omitzero" description:"When the job must have ended, if it has a time to run"`
	Created     time.Time         `json:"created"`
	Priority    int               `json:"priority,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// Acknowledgement is what a worker says about a job. One of the fields besides the token is
// required.
type Acknowledgement struct {
	Token      outside.Token   `json:"token"`
	Complete   *CompleteBody   `json:"complete,omitempty" description:"The job has succeeded"`
	Fail       *FailBody       `json:"fail,omitempty" description:"The attempt has failed"`
	Release    *ReleaseBody    `json:"release,omitempty" description:"The job is handed back, which is not an attempt"`
	Checkpoint *CheckpointBody `json:"checkpoint,omitempty" description:"The payload is replaced"`
}

// The kinds of acknowledgements.
type (
	// CompleteBody ends a job as succeeded.
	CompleteBody struct {
		Result json.RawMessage `json:"result,omitempty" description:"The result: any JSON, at most 1 MiB"`
	}
	// FailBody ends an attempt as failed.
	FailBody struct {
		Error     string    `json:"error" minLength:"1" maxLength:"65536"`
		Stack     string    `json:"stack,omitempty" maxLength:"65536" description:"Where the error happened"`
		Permanent bool      `json:"permanent,omitempty" description:"Whether the job ends although it has attempts left"`
		RetryIn   *duration `json:"retry_in,omitempty" description:"How long the next attempt waits; the default is what the job's backoff says"`
	}
	// ReleaseBody hands a job back.
	ReleaseBody struct {
		Delay  duration `json:"delay,omitempty" description:"How long the job waits before it can be leased again"`
		Reason string   `json:"reason,omitempty" maxLength:"1024" description:"Shown to operators while it waits"`
	}
	// CheckpointBody replaces the payload of a job.
	CheckpointBody struct {
		Args  json.RawMessage `json:"args,omitempty" description:"The new payload, if it is JSON"`
		Bytes *[]byte         `json:"bytes,omitempty" description:"The new payload in base64, if it is not JSON"`
		Again *ReleaseBody    `json:"again,omitempty" description:"Hands the job back, to continue later; by default the worker continues"`
	}
)

// Acknowledged is the answer to an Acknowledgement.
type Acknowledged struct {
	Done    bool     `json:"done" description:"Whether the acknowledgement is stored"`
	Problem *Problem `json:"problem,omitempty" description:"Why not"`
}

// mayBeRepeated reports whether the worker should send the acknowledgement again.
func (a Acknowledged) mayBeRepeated() bool {
	return a.Problem != nil && a.Problem.Status >= http.StatusInternalServerError
}

// AcknowledgeBody contains acknowledgements.
type AcknowledgeBody struct {
	// Acknowledge are the ends of runs to write, from 1 to 1,000. Each names its lease, which
	// must be one of this worker.
	Acknowledge []Acknowledgement `json:"acknowledge" maxItems:"1000"`
}

// AcknowledgeAnswer is the answer to an AcknowledgeBody.
type AcknowledgeAnswer struct {
	Acknowledged []Acknowledged `json:"acknowledged" description:"In the order of the acknowledgements"`
}

// HeartbeatBody renews leases.
type HeartbeatBody struct {
	// Heartbeats are the leases to renew, from 1 to 1,000.
	Heartbeats []Heartbeat `json:"heartbeats" maxItems:"1000"`
}

// Heartbeat renews a lease, for as long as it was taken for.
type Heartbeat struct {
	Token outside.Token `json:"token"`
	// Progress is how far the job has come; absent to leave it as it is.
	Progress *ProgressBody `json:"progress,omitempty"`
	Log      []string      `json:"log,omitempty" description:"Lines to add to the log of the job"`
}

// ProgressBody is how far a job has come.
type ProgressBody struct {
	Fraction float64 `json:"fraction" minimum:"0" maximum:"1" description:"The part of the work that is done"`
	Message  string  `json:"message,omitempty" description:"Shown to operators"`
}

// HeartbeatAnswer is the answer to a HeartbeatBody.
type HeartbeatAnswer struct {
	Heartbeats []Renewed `json:"heartbeats" description:"In the order of the heartbeats"`
}

// Renewed is the answer to a Heartbeat.
type Renewed struct {
	LeaseEnds time.Time `json:"lease_ends,omitzero" description:"When the renewed lease runs out"`
	Cancel    bool      `json:"cancel" description:"Whether the worker should stop and acknowledge the job as failed, which ends it as canceled"`
	Problem   *Problem  `json:"problem,omitempty" description:"Why the lease was not renewed"`
}

var errNoWorkers = fmt.Errorf("the service does not serve outside workers: %w", management.ErrUnsupported)

// dispatcher returns the dispatcher of the workers' routes.
func (c *call) dispatcher() (*outside.Dispatcher, error) {
	if c.workers.Dispatcher == nil {
		return nil, errNoWorkers
	}
	return c.workers.Dispatcher, nil
}

// leasing is a request for jobs.
type leasing struct {
	*call
	dispatcher   *outside.Dispatcher
	req          outside.LeaseRequest
	acknowledged []Acknowledged
	// waiting is the context of the request while it may wait, and leave ends that; nil if the
	// request may not wait, or no longer waits.
	waiting context.Context
	leave   func()
	jobs    []outside.Job
	err     error
}

// leaseJobs does everything but the wait aside. Thousands of requests may wait, and the stack of each
// would take twice the memory otherwise. For the same reason the functions on it have small frames.
func leaseJobs(c *call) {
	l := new(leasing)
	l.call = c
	defer l.endWait()
	aside.Do(l.begin)
	if l.err == nil {
		l.jobs, l.err = l.dispatcher.Lease(aside.Small(l.waiting), l.req)
	}
	aside.Do(l.finish)
}

// begin does the acknowledgements, and prepares the wait for jobs.
func (l *leasing) begin() {
	l.err = l.acknowledgeFirst()
	if l.err != nil {
		return
	}
	l.waiting = l.r.Context()
	if l.req.Wait > 0 {
		l.waiting, l.leave, l.err = l.mayWait(l.req.Wait + web.WaitGrace)
	}
}

func (l *leasing) endWait() {
	if l.leave != nil {
		l.leave()
		l.leave = nil
	}
}

// finish sends the answer. It has no jobs when the server shuts down.
func (l *leasing) finish() {
	if l.leave != nil && l.waiting.Err() != nil && l.r.Context().Err() == nil && len(l.jobs) == 0 {
		l.err = nil
	}
	if l.leave != nil && len(l.jobs) > 0 {
		l.allowStill()
	}
	if len(l.jobs) > 0 && l.r.Context().Err() != nil { // the answer could be sent, but no worker is left to read it
		l.dispatcher.TakeBack(l.r.Context(), l.jobs)
		l.jobs = nil
	}
	l.endWait() // the client may send its next request before this function has returned
	l.call.finish(l.answer())
	// Otherwise the server sends the headers, with a large frame, on the stack that the next wait keeps.
	err := http.NewResponseController(l.w).Flush()
	if err != nil && len(l.jobs) > 0 && !errors.Is(err, http.ErrNotSupported) { // a small answer was in a buffer until now
		l.dispatcher.TakeBack(l.r.Context(), l.jobs)
	}
}

// acknowledgeFirst checks a request for jobs, and does its acknowledgements.
func (l *leasing) acknowledgeFirst() error {
	var body LeaseBody
	if err := l.input(new(none), &body); err != nil {
		return err
	}
	l.req = outside.LeaseRequest{
		Queues: body.Queues, Types: body.Types, Limit: body.Limit,
		Wait: time.Duration(body.Wait), Lease: time.Duration(body.Lease), Worker: body.Worker,
	}
	// Authorize is called only for valid requests.
	if err := errors.Join(l.req.Validate(), checkBatch("acknowledge", len(body.Acknowledge))); err != nil {
		return err
	}
	if err := l.guard.AllowWork(l.r, l.req.Queues, l.req.Types); err != nil {
		return err
	}
	refused, err := l.refusals(len(body.Acknowledge), func(i int) outside.Token { return body.Acknowledge[i].Token })
	if err == nil {
		l.dispatcher, err = l.call.dispatcher()
	}
	if err != nil {
		return err
	}
	l.acknowledged = l.acknowledge(l.dispatcher, body.Acknowledge, refused)
	if slices.ContainsFunc(l.acknowledged, Acknowledged.mayBeRepeated) {
		l.req.Wait = 0 // the lease of that job may run out before the worker could send it again
	}
	return nil
}

// allowStill takes the jobs back if the worker lost its rights while it waited.
func (l *leasing) allowStill() {
	err := l.guard.AllowWork(l.r, l.req.Queues, l.req.Types)
	if err == nil {
		return
	}
	l.dispatcher.TakeBack(l.r.Context(), l.jobs)
	l.jobs, l.err = nil, err
}

// answer returns the answer with the jobs, or with the error of leasing them.
func (l *leasing) answer() (answer, error) {
	if l.err != nil && len(l.acknowledged) == 0 {
		return answer{}, l.err
	}
	list := Leased{Jobs: make([]LeasedJob, len(l.jobs)), Acknowledged: l.acknowledged}
	if l.r.Context().Err() == nil { // otherwise no client is left to read why
		list.Problem = l.problem(l.err)
	}
	for i, j := range l.jobs {
		list.Jobs[i] = leasedJob(j)
	}
	leased := ok(list)
	leased.unsent = func() { l.dispatcher.TakeBack(l.r.Context(), l.jobs) }
	return leased, nil
}

func leasedJob(j outside.Job) LeasedJob {
	shown := LeasedJob{
		Token: j.Token, Queue: j.Queue, ID: j.ID, Type: j.Type, Version: j.Version,
		Attempt: j.Attempt + 1, MaxAttempts: j.MaxAttempts, Args: j.Payload.JSON,
		LeaseEnds: j.LeaseEnds.UTC(), RunBy: j.RunBy.UTC(), Created: j.Created.UTC(), Priority: j.Priority, Tags: j.Tags, Metadata: j.Metadata,
	}
	if j.Payload.Bytes != nil {
		shown.Bytes = &j.Payload.Bytes
	}
	return shown
}

func checkBatch(field string, size int) error {
	if size > outside.MaxBatch {
		return invalid(field, fmt.Sprint(size), fmt.Sprintf("must have at most %d items", outside.MaxBatch))
	}
	return nil
}

func acknowledgeJobs(c *call) (answer, error) {
	var body AcknowledgeBody
	if err := c.input(new(none), &body); err != nil {
		return answer{}, err
	}
	d, refused, err := c.mayWork("acknowledge", len(body.Acknowledge), func(i int) outside.Token { return body.Acknowledge[i].Token })
	if err != nil {
		return answer{}, err
	}
	return ok(AcknowledgeAnswer{c.acknowledge(d, body.Acknowledge, refused)}), nil
}

// acknowledge does what a list of acknowledgements says, except for those that are refused.
func (c *call) acknowledge(d *outside.Dispatcher, list []Acknowledgement, refused []error) []Acknowledged {
	var acks []outside.Ack
	for i := range list {
		if refused[i] == nil {
			acks = append(acks, list[i].ack())
		}
	}
	errs := d.Acknowledge(c.r.Context(), acks...)
	answers := make([]Acknowledged, len(list))
	for i, err := range refused {
		if err == nil {
			err, errs = errs[0], errs[1:]
		}
		answers[i] = Acknowledged{Done: err == nil, Problem: c.problem(err)}
	}
	return answers
}

// mayWork checks a request that is only about leases, and returns why it may not work on the job of
// each. It is refused as a whole if it may not work on any of them.
func (c *call) mayWork(field string, size int, token func(i int) outside.Token) (d *outside.Dispatcher, refused []error, err error) {
	err = checkBatch(field, size)
	if err != nil {
		return nil, nil, err
	}
	refused, err = c.refusals(size, token)
	if err == nil && size > 0 && !slices.Contains(refused, nil) {
		err = refused[0]
	}
	if err == nil {
		d, err = c.dispatcher()
	}
	return d, refused, err
}

// refusals returns, for the token of each lease, why the request may not work on its job; nil if it
// may. An invalid token names no job: the dispatcher refuses it. The error means that it is not known
// who sent the request.
func (c *call) refusals(size int, token func(i int) outside.Token) (refused []error, err error) {
	type kind struct{ queue, jobType string }
	asked := map[kind]error{}
	refused = make([]error, size)
	for i := range refused {
		var of kind
		if of.queue, of.jobType, err = token(i).Job(); err != nil {
			continue
		}
		reason, known := asked[of]
		if !known {
			reason = c.guard.AllowWork(c.r, []string{of.queue}, []string{of.jobType})
			asked[of] = reason
		}
		var unauthenticated *guard.UnauthenticatedError
		if errors.As(reason, &unauthenticated) {
			return nil, reason
		}
		refused[i] = reason
	}
	return refused, nil
}

// problem describes an error of a part of a request.
func (c *call) problem(err error) *Problem {
	if err == nil {
		return nil
	}
	f := failureOf(c.r.Context(), err)
	web.LogFailure(c.r, f, err)
	p := problemOf(f, err)
	return &p
}

func (a *Acknowledgement) ack() outside.Ack {
	ack := outside.Ack{Token: a.Token}
	if a.Complete != nil {
		ack.Complete = &outside.Complete{Result: a.Complete.Result}
	}
	if f := a.Fail; f != nil {
		ack.Fail = &outside.Fail{Error: f.Error, Stack: f.Stack, Permanent: f.Permanent, RetryIn: (*time.Duration)(f.RetryIn)}
	}
	if a.Release != nil {
		ack.Release = a.Release.release()
	}
	if p := a.Checkpoint; p != nil {
		ack.Checkpoint = &outside.Checkpoint{}
		if p.Args != nil || p.Bytes != nil {
			ack.Checkpoint.Payload = &job.Payload{JSON: p.Args}
		}
		if p.Bytes != nil {
			ack.Checkpoint.Payload.Bytes = *p.Bytes
		}
		if p.Again != nil {
			ack.Checkpoint.Again = p.Again.release()
		}
	}
	return ack
}

func (r *ReleaseBody) release() *outside.Release {
	return &outside.Release{Delay: time.Duration(r.Delay), Reason: r.Reason}
}

func renewLeases(c *call) (answer, error) {
	var body HeartbeatBody
	if err := c.input(new(none), &body); err != nil {
		return answer{}, err
	}
	d, refused, err := c.mayWork("heartbeats", len(body.Heartbeats), func(i int) outside.Token { return body.Heartbeats[i].Token })
	if err != nil {
		return answer{}, err
	}
	var beats []outside.Beat
	for i := range body.Heartbeats {
		if refused[i] == nil {
			beats = append(beats, body.Heartbeats[i].beat())
		}
	}
	renewed := d.Heartbeat(c.r.Context(), beats...)
	answers := make([]Renewed, len(refused))
	for i, err := range refused {
		var beaten outside.Beaten
		if err == nil {
			beaten, renewed = renewed[0], renewed[1:]
			err = beaten.Err
		}
		answers[i] = Renewed{Problem: c.problem(err)}
		if err == nil {
			answers[i].LeaseEnds, answers[i].Cancel = beaten.LeaseEnds.UTC(), beaten.Cancel
		}
	}
	return ok(HeartbeatAnswer{answers}), nil
}

func (h *Heartbeat) beat() outside.Beat {
	b := outside.Beat{Token: h.Token, Log: h.Log}
	if h.Progress != nil {
		b.Progress = &outside.Progress{Fraction: h.Progress.Fraction, Message: h.Progress.Message}
	}
	return b
}

// work are the actions of the workers' routes.
var work = []guard.Action{guard.Work}
