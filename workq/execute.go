package workq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

const done = "+OK\r\n"

// result is the result of a job.
type result struct {
	success bool
	content []byte
}

// execute executes a command, and returns the answer. An error that is an answer is sent to
// the client; any other ends the connection.
func (c *conn) execute(cmd *command, block []byte) ([]byte, error) {
	if err := cmd.checkFlags(); err != nil {
		return nil, err
	}
	s := c.server
	var out []byte
	var err error
	switch cmd.name {
	case "add", "schedule":
		out, err = s.addJob(cmd, block)
	case "run":
		out, err = c.run(cmd, block)
	case "result":
		out, err = c.result(cmd)
	case "lease":
		out, err = c.lease(cmd)
	case "complete", "fail":
		out, err = s.end(cmd, block)
	case "delete":
		out, err = s.delete(cmd)
	default:
		out, err = c.inspect(cmd.args)
	}
	return out, s.refusal(cmd, err)
}

var errGone = errors.New("the client has gone")

// refusal returns the error line for an error. Errors of the store are logged.
func (s *Server) refusal(cmd *command, err error) error {
	if err == nil {
		return nil
	}
	var line answer
	if errors.As(err, &line) || errors.Is(err, errGone) {
		return err
	}
	if s.conns.Working().Err() != nil {
		return ErrClosed
	}
	if !errors.Is(err, outside.ErrTooManyWaiting) {
		s.conns.Log("a workq command failed: "+cmd.name, err)
	}
	if cmd.name == "result" || cmd.name == "inspect" {
		return outOfSync
	}
	return readOnly
}

// addJob puts a job.
func (s *Server) addJob(cmd *command, payload []byte) ([]byte, error) {
	n, err := cmd.parseNewJob(payload)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	begins := now
	if cmd.name == "schedule" {
		begins = n.at
	}
	expires := begins.Add(n.ttl)
	if begins.After(now.Add(MaxAhead)) || !expires.After(now) {
		return nil, invalidTime
	}
	err = s.put(&n, expires)
	if err != nil {
		return nil, err
	}
	return []byte(done), nil
}

func (s *Server) put(n *newJob, expires time.Time) error {
	ctx, cancel := s.call()
	defer cancel()
	unlock, err := s.ids.lock(ctx, n.id)
	if err != nil {
		return err
	}
	defer unlock()
	err = s.jobs.put(ctx, n, expires)
	end := due{moment: moment{id: n.id}, queue: s.jobs.prefix + n.name, at: expires}
	switch {
	case err == nil:
		s.clock.set(end)
	case errors.Is(err, driver.ErrOutcomeUnknown):
		s.clock.setNew(end) // there may be a job, or an earlier one with the same ID
	}
	return err
}

// runGrace is how much longer than the longest run the job of a run is kept, if its server
// has stopped.
const runGrace = time.Minute

// run puts a job, waits for its result, and removes it.
func (c *conn) run(cmd *command, payload []byte) (out []byte, err error) {
	s := c.server
	n, err := cmd.parseNewJob(payload)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(n.wait)
	expires := until.Add(n.ttr + runGrace)
	err = s.put(&n, expires)
	if err != nil {
		return nil, err
	}
	n.payload = nil
	c.release()
	name := s.jobs.prefix + n.name
	r, err := c.await(name, n.id, until, true)
	ctx, cancel := s.call()
	defer cancel()
	isOwn := func(job *stored) bool { return job.expiresAt(expires) }
	if removed := s.removeByID(ctx, name, n.id, isOwn); removed != nil && !errors.Is(removed, notFound) {
		s.conns.Log("could not remove a job that a client of workq ran", removed)
	}
	if err != nil {
		return nil, err
	}
	return r.reply(n.id), nil
}

// reply returns the answer with a result.
func (r result) reply(id string) []byte {
	out := make([]byte, 0, len(r.content)+len(id)+40)
	out = append(out, "+OK 1\r\n"...)
	out = append(out, id...)
	if r.success {
		out = append(out, " 1 "...)
	} else {
		out = append(out, " 0 "...)
	}
	out = strconv.AppendInt(out, int64(len(r.content)), 10)
	out = append(out, "\r\n"...)
	out = append(out, r.content...)
	return append(out, "\r\n"...)
}

func (c *conn) result(cmd *command) ([]byte, error) {
	s := c.server
	id, _, err := parseID(cmd.args[0])
	if err != nil {
		return nil, err
	}
	wait, err := parseWait(cmd.args[1])
	if err != nil {
		return nil, err
	}
	queueName, r, err := s.resultNow(id)
	if errors.Is(err, timedOut) && wait > 0 {
		r, err = c.await(queueName, id, time.Now().Add(wait), false)
	}
	if err != nil {
		return nil, err
	}
	return r.reply(id), nil
}

// resultNow returns the result of a job, and timedOut if the job has not ended.
func (s *Server) resultNow(id string) (queueName string, r result, err error) {
	ctx, cancel := s.call()
	defer cancel()
	job, err := s.jobs.find(ctx, id)
	switch {
	case err != nil:
		return "", r, err
	case !job.ended():
		return job.prefixed, r, timedOut
	}
	r, err = s.jobs.result(ctx, job)
	return job.prefixed, r, err
}

// await waits until a time for the result of a job, and then, if inLease is true, until the
// end of the lease that the job has by then.
func (c *conn) await(queueName, id string, until time.Time, inLease bool) (r result, err error) {
	s := c.server
	gone := c.wait(func(ctx context.Context) {
		r, err = s.awaitResult(ctx, queueName, id, until)
		if !errors.Is(err, timedOut) || !inLease || ctx.Err() != nil {
			return
		}
		job, readErr := s.jobs.get(ctx, queueName, id)
		if readErr == nil && (job.leased() || job.ended()) {
			r, err = s.awaitResult(ctx, queueName, id, s.leaseEnds(job))
		}
	})
	if gone {
		return result{}, errGone
	}
	return r, err
}

// leaseEnds returns when the time to run of a leased job is over. For a lease of this server that
// does not depend on the wall clock.
func (s *Server) leaseEnds(job *stored) time.Time {
	if own, ok := s.clock.lease(job.JobID()); ok {
		return own.at
	}
	return job.leaseEnds()
}

func (s *Server) awaitResult(ctx context.Context, queueName, id string, until time.Time) (result, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	w := s.waiters.join(id, cancel)
	defer s.waiters.leave(id, w)
	for {
		job, err := s.readEnd(queueName, id) //nolint:contextcheck // The time of the wait may be over.
		if r, ok := s.waiters.published(w); ok {
			return r, nil
		}
		switch {
		case amboy.IsJobNotFoundError(err) || err == nil && job.gone(time.Now()):
			<-ctx.Done() // It was removed.
			if r, ok := s.waiters.published(w); ok {
				return r, nil
			}
			return result{}, timedOut
		case err != nil:
			return result{}, err
		case job.ended():
			return s.publish(id, job) //nolint:contextcheck // The time of the wait may be over.
		case ctx.Err() != nil:
			return result{}, timedOut
		}
		_, err = s.dispatcher.WaitForEnd(ctx, queueName, id)
		if err != nil && ctx.Err() == nil && !amboy.IsJobNotFoundError(err) {
			return result{}, err
		}
	}
}

func (s *Server) readEnd(queueName, id string) (*stored, error) {
	ctx, cancel := s.call()
	defer cancel()
	return s.jobs.get(ctx, queueName, id)
}

// publish reads the result of a job that has ended, and gives it to all that wait for it,
// because one of them may remove the job.
func (s *Server) publish(id string, job *stored) (result, error) {
	ctx, cancel := s.call()
	defer cancel()
	r, err := s.jobs.result(ctx, job)
	if err == nil {
		s.waiters.publish(id, r)
	}
	return r, err
}

// workerName names the clients of the protocol to operators.
const workerName = "workq"

// leaseTime is the minimum time that a lease lasts in the store. If the server stops, the job is
// leased again after that. A job with a time to run of up to a minute needs no second write that
// makes its lease longer.
const leaseTime = time.Minute + leaseGrace

// leaseGrace is how much longer than the time to run a lease lasts in the store, so that the
// server hands the job back before.
const leaseGrace = 10 * time.Second

// leaseOf returns how long a lease lasts.
func leaseOf(j outside.Job) time.Duration {
	m, _ := metaOf(j.Metadata)
	return m.ttr + leaseGrace
}

func (c *conn) lease(cmd *command) (out []byte, err error) {
	r, err := cmd.parseLease()
	if err != nil {
		return nil, err
	}
	s := c.server
	s.names.add(r.names)
	until := time.Now().Add(r.wait)
	if r.wait == 0 {
		out, c.given, err = s.lease(s.conns.Open(), r.names, until)
		return out, err
	}
	if c.wait(func(ctx context.Context) { out, c.given, err = s.lease(ctx, r.names, until) }) && out == nil {
		return nil, errGone
	}
	return out, err
}

var leasedTypes = []string{JobType}

// leaseRequest asks for a job of the queues of names.
func (s *Server) leaseRequest(names []string) outside.LeaseRequest {
	req := outside.LeaseRequest{
		Queues: make([]string, len(names)), Types: leasedTypes, Lease: leaseTime, Worker: workerName, LeaseOf: leaseOf, NoTokens: true,
	}
	for i, name := range names {
		req.Queues[i] = s.jobs.prefix + name
	}
	return req
}

// lease leases a job, and returns the answer and the lease.
func (s *Server) lease(ctx context.Context, names []string, until time.Time) ([]byte, *due, error) {
	req := s.leaseRequest(names)
	for {
		req.Wait = min(max(time.Until(until), 0), outside.MaxWait)
		leased, err := s.dispatcher.Lease(ctx, req)
		switch {
		case len(leased) > 0: // even if ctx has ended since
		case ctx.Err() != nil:
			return nil, nil, timedOut
		case err != nil:
			return nil, nil, err
		case time.Until(until) <= 0:
			return nil, nil, timedOut
		default:
			continue
		}
		if out, given := s.give(&leased[0]); out != nil { //nolint:contextcheck // The time of the wait may be over.
			return out, given, nil
		}
	}
}

// give returns the answer with a leased job, and its lease; nil if the job is not to be given to a worker.
func (s *Server) give(j *outside.Job) ([]byte, *due) {
	now := time.Now()
	m, ok := metaOf(j.Metadata)
	id, _, err := parseID(j.ID)
	name := s.jobs.name(j.Queue)
	switch {
	case !ok || err != nil || !isName(name):
		s.refuse(j, &outside.Fail{Error: "it was not put by a client of workq, whose workers can't run it", Permanent: true})
		return nil, nil
	case m.putBack+j.Interruptions >= m.attemptsAllowed():
		s.refuse(j, ttrFailure())
		return nil, nil
	}
	ack := j.Ack()
	given := due{moment: moment{isTTR: true, id: j.ID}, queue: j.Queue, at: now.Add(m.ttr), ack: &ack, putBack: m.putBack, fails: m.fails}
	s.clock.set(given)
	out := make([]byte, 0, j.Payload.Size()+len(name)+len(id)+60)
	out = append(out, "+OK 1\r\n"...)
	out = append(out, id...)
	out = append(out, ' ')
	out = append(out, name...)
	out = append(out, ' ')
	out = strconv.AppendInt(out, m.ttr.Milliseconds(), 10)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(j.Payload.Size()), 10)
	out = append(out, "\r\n"...)
	out = append(append(out, j.Payload.Bytes...), j.Payload.JSON...) // one of them is empty
	return append(out, "\r\n"...), &given
}

// takeBack hands back a leased job that did not reach its worker. That was no attempt.
func (s *Server) takeBack(given *due) {
	ctx, cancel := s.call()
	defer cancel()
	back := *given.ack
	back.Release = &outside.Release{}
	err := s.dispatcher.Acknowledge(ctx, back)[0]
	if err == nil || errors.Is(err, outside.ErrLeaseLost) {
		s.clock.dropLease(given.id, given.ack)
		return
	}
	s.conns.Log("could not hand back a job that did not reach a workq client", err) // its time to run ends the lease
}

// refuse ends a leased job that no worker is given.
func (s *Server) refuse(j *outside.Job, how *outside.Fail) {
	ctx, cancel := s.call()
	defer cancel()
	ack := j.Ack()
	ack.Fail = how
	err := s.dispatcher.Acknowledge(ctx, ack)[0]
	if err != nil && !errors.Is(err, outside.ErrLeaseLost) {
		s.conns.Log("could not end a workq job that may not run", err)
	}
}

// end ends a job with a result.
func (s *Server) end(cmd *command, content []byte) ([]byte, error) {
	id, _, err := parseID(cmd.args[0])
	if err != nil {
		return nil, err
	}
	if content == nil {
		content = []byte{}
	}
	ack := outside.Ack{Complete: &outside.Complete{Bytes: content}}
	if cmd.name == "fail" {
		ack = outside.Ack{Fail: &outside.Fail{Error: errFailed, Permanent: true, Bytes: content}}
	}
	ctx, cancel := s.call()
	defer cancel()
	if cmd.name == "fail" && s.opts.RetryFails {
		err = s.fail(ctx, id, ack)
	} else {
		err = s.endNow(ctx, id, ack)
	}
	if err != nil {
		return nil, err
	}
	return []byte(done), nil
}

// endNow ends a job for good.
func (s *Server) endNow(ctx context.Context, id string, ack outside.Ack) error {
	err := s.endByLease(ctx, id, ack)
	if errors.Is(err, outside.ErrLeaseLost) {
		err = s.endByID(ctx, id, ack)
	}
	if err == nil {
		s.clock.drop(moment{isTTR: true, id: id})
	}
	return err
}

// endByLease ends a job that this server has leased, which takes fewer calls of the store than
// endByID. The error wraps outside.ErrLeaseLost if the server knows of no lease, or if it was lost.
func (s *Server) endByLease(ctx context.Context, id string, ack outside.Ack) error {
	own, ok := s.clock.lease(id)
	if !ok {
		return outside.ErrLeaseLost
	}
	end := *own.ack
	end.Complete, end.Fail, end.Metadata = ack.Complete, ack.Fail, ack.Metadata
	return s.dispatcher.Acknowledge(ctx, end)[0]
}

func (s *Server) endByID(ctx context.Context, id string, ack outside.Ack) error {
	job, err := s.jobs.find(ctx, id)
	if err != nil {
		return err
	}
	return s.jobs.end(ctx, job, ack)
}

// errFailed is the error of a job that a worker has failed. What the worker sent is its
// result.
const errFailed = "its worker failed it; the result says why"

func (s *Server) delete(cmd *command) ([]byte, error) {
	id, isRandom, err := parseID(cmd.args[0])
	if err != nil {
		return nil, err
	}
	if !isRandom {
		return nil, invalidID
	}
	ctx, cancel := s.call()
	defer cancel()
	job, err := s.jobs.find(ctx, id)
	if err == nil {
		err = s.removeByID(ctx, job.prefixed, id, func(*stored) bool { return true })
	}
	if err != nil {
		return nil, err
	}
	return []byte(done), nil
}

// removeByID removes a job and everything that is known of it, if it is the job that the caller
// means: its ID may have been used again.
func (s *Server) removeByID(ctx context.Context, queueName, id string, isMeant func(*stored) bool) error {
	unlock, err := s.ids.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	job, err := s.jobs.get(ctx, queueName, id)
	switch {
	case amboy.IsJobNotFoundError(err), err == nil && !isMeant(job):
		return notFound
	case err == nil:
		err = s.jobs.remove(ctx, job, errRemoved)
	}
	if err == nil {
		err = s.jobs.forget(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("removing job %q of queue %q: %w", id, queueName, err)
	}
	s.clock.drop(moment{id: id})
	s.clock.drop(moment{isTTR: true, id: id})
	return nil
}
