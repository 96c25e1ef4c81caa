package workq

import (
	"errors"
	"maps"
	"slices"
	"strconv"
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
	if err != nil && s.conns.Open().Err() == nil {
		s.conns.Log("could not end a workq job whose time is over; trying again", err)
		d.at, d.late = time.Now().Add(retryIn), true
		s.clock.setNew(d) // not instead of the time of a later lease, or of a later job with the same ID
	}
}

// tooOld removes a job whose time to live is over.
func (s *Server) tooOld(d due) error {
	ctx, cancel := s.call()
	defer cancel()
	unlock, err := s.ids.lock(ctx, d.id)
	if err != nil {
		return err
	}
	defer unlock()
	job, err := s.jobs.get(ctx, d.queue, d.id)
	if amboy.IsJobNotFoundError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !job.gone(time.Now()) {
		// It is a later job with the same ID, or the wall clock was set back.
		if end := job.TimeInfo.DispatchBy; !end.IsZero() {
			s.clock.setNew(due{moment: d.moment, queue: d.queue, at: end})
		}
		return nil
	}
	evicted := !job.ended() || driver.StateOf(job.Record, time.Time{}) == amboy.StateExpired
	err = s.jobs.remove(ctx, job, errTooOld)
	switch {
	case errors.Is(err, notFound):
		return nil
	case err != nil:
		return err
	}
	s.clock.drop(moment{isTTR: true, id: d.id})
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
	// An earlier try may have stored this number, and failed to hand the job back.
	putBack := d.putBack + 1
	ack := *d.ack
	if putBack+job.Status.Interruptions.Total() >= job.attemptsAllowed() {
		ack.Fail = ttrFailure()
	} else {
		ack.Checkpoint = &outside.Checkpoint{Again: &outside.Release{}}
		ack.Metadata = map[string]string{attemptsKey: strconv.Itoa(putBack)}
	}
	err = s.dispatcher.Acknowledge(ctx, ack)[0]
	if errors.Is(err, outside.ErrLeaseLost) {
		return nil
	}
	return err
}

func ttrFailure() *outside.Fail {
	return &outside.Fail{Error: errTTR, Permanent: true, Bytes: []byte{}}
}

// pageOfTimes is the number of jobs that are read at a time at the start. All are in memory, with their payloads and
// results.
const pageOfTimes = 100

// readTimes sets the clock to the times of all jobs in the store.
func (s *Server) readTimes() {
	for s.conns.Open().Err() == nil {
		err := s.readTimesOnce()
		if err == nil || s.conns.Open().Err() != nil {
			return
		}
		s.conns.Log("could not read the times of the workq jobs in the store; trying again", err)
		s.conns.Pause(retryIn)
	}
}

func (s *Server) readTimesOnce() error {
	page := driver.PageRequest{Limit: pageOfTimes}
	for {
		found, err := s.jobs.store.Admin().Find(s.conns.Open(), driver.Query{Types: []string{JobType}, Latest: true}, page)
		if err != nil {
			return err
		}
		err = s.setTimes(found.Records)
		if err != nil {
			return err
		}
		if found.Next == "" {
			return nil
		}
		page.After = found.Next
	}
}

// setTimes sets the clock to the times of stored jobs.
func (s *Server) setTimes(records []*driver.Record) error {
	leased := map[string]map[string]*stored{} // by queue and ID
	for _, r := range records {
		job, ok := s.jobs.of(r)
		if !ok {
			continue
		}
		if end := job.TimeInfo.DispatchBy; !end.IsZero() {
			s.clock.setNew(due{moment: moment{id: job.JobID()}, queue: job.prefixed, at: end})
		}
		if job.leased() {
			if leased[job.prefixed] == nil {
				leased[job.prefixed] = map[string]*stored{}
			}
			leased[job.prefixed][job.JobID()] = job
		}
	}
	for queueName, jobs := range leased {
		if err := s.setTTRs(queueName, jobs); err != nil {
			return err
		}
	}
	return nil
}

// setTTRs sets the clock to the ends of the leases of clients of the protocol.
func (s *Server) setTTRs(queueName string, jobs map[string]*stored) error {
	leased, err := s.dispatcher.Leased(s.conns.Open(), queueName, outside.DefaultLease, slices.Collect(maps.Keys(jobs))...)
	if errors.Is(err, outside.ErrUndecodable) { // its lease runs out, and the job is parked
		s.conns.Log("could not read the times of leased workq jobs", err)
	} else if err != nil {
		return err
	}
	for id, j := range leased {
		if j.Worker == workerName {
			own := jobs[id]
			s.clock.setNew(due{moment: moment{isTTR: true, id: id}, queue: queueName, at: own.leaseEnds(), ack: &outside.Ack{Token: j.Token}, putBack: own.putBack, fails: own.fails})
		}
	}
	return nil
}
