package workq

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// retryIn is how long the server waits after it could not write that a time has passed.
const retryIn = time.Second

// passed does what happens to a job at a moment.
func (s *Server) passed(d due) {
	happen := s.tooOld
	if d.isTTR {
		happen = s.ttrOver
	}
	err := happen(d)
	if err != nil && s.open.Err() == nil {
		s.log("could not end a workq job whose time is over; trying again", err)
		d.at = time.Now().Add(retryIn)
		s.clock.set(d)
	}
}

// tooOld removes a job whose time to live is over.
func (s *Server) tooOld(d due) error {
	ctx, cancel := s.call()
	defer cancel()
	job, err := s.jobs.get(ctx, d.queue, d.id)
	if amboy.IsJobNotFoundError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !job.gone(time.Now()) {
		return nil // It is a later job with the same ID.
	}
	evicted := !job.ended() || driver.StateOf(job.Record, time.Time{}) == amboy.StateExpired
	err = s.jobs.remove(ctx, job, errTooOld)
	switch {
	case errors.Is(err, notFound):
		return nil
	case err != nil:
		return err
	}
	s.clock.drop(moment{isTTR: true, queue: d.queue, id: d.id})
	if evicted && job.ttl > 0 {
		s.evicted.Add(1)
	}
	return nil
}

// ttrOver hands back a job whose time to run is over, or ends it if it may not be leased
// again.
func (s *Server) ttrOver(d due) error {
	ctx, cancel := s.call()
	defer cancel()
	job, err := s.jobs.get(ctx, d.queue, d.id)
	if amboy.IsJobNotFoundError(err) || err == nil && !job.leased() {
		return nil
	}
	if err != nil {
		return err
	}
	ack := outside.Ack{Token: d.token, Release: &outside.Release{}}
	if job.attempts() >= job.attemptsAllowed() {
		ack = outside.Ack{Token: d.token, Fail: ttrFailure()}
	} else {
		err = s.dispatcher.SetMetadata(ctx, d.token, attemptsKey, strconv.Itoa(job.timeOuts+1))
	}
	if err == nil {
		err = s.dispatcher.Acknowledge(ctx, ack)[0]
	}
	if errors.Is(err, outside.ErrLeaseLost) {
		return nil
	}
	return err
}

func ttrFailure() *outside.Fail {
	return &outside.Fail{Error: errTTR, Permanent: true, Bytes: []byte{}}
}

// pageOfTimes is the number of jobs that are read at a time at the start.
const pageOfTimes = 1000

// readTimes sets the clock to the times of all jobs in the store.
func (s *Server) readTimes() {
	for s.open.Err() == nil {
		err := s.readTimesOnce()
		if err == nil || s.open.Err() != nil {
			return
		}
		s.log("could not read the times of the workq jobs in the store; trying again", err)
		s.pause(retryIn)
	}
}

func (s *Server) readTimesOnce() error {
	page := driver.PageRequest{Limit: pageOfTimes}
	for {
		found, err := s.jobs.store.Admin().Find(s.open, driver.Query{Types: []string{JobType}, Latest: true}, page)
		if err != nil {
			return err
		}
		for _, r := range found.Records {
			if job, ok := s.jobs.of(r); ok {
				s.setTimes(job)
			}
		}
		if found.Next == "" {
			return nil
		}
		page.After = found.Next
	}
}

func (s *Server) setTimes(job *stored) {
	key := moment{queue: job.prefixed, id: job.JobID()}
	if end := job.TimeInfo.DispatchBy; !end.IsZero() {
		s.clock.setNew(due{moment: key, at: end})
	}
	token, ok := outside.TokenOf(job.Record)
	if ok && strings.HasSuffix(job.Status.Owner, "/"+workerName) {
		key.isTTR = true
		s.clock.setNew(due{moment: key, at: job.leaseEnds(), token: token})
	}
}
