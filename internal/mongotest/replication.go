package mongotest

import (
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// replication is what the majority of the members has. It is everything, unless a test
// holds replication.
type replication struct {
	held     bool
	majority uint64        // the last commit that the majority has, while it is held
	changed  chan struct{} // closed and replaced when the majority has more, and when the server's role changes
}

func (r *replication) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// HoldReplication keeps later commits from the other members until Replicate. Writes with
// the write concern "majority" wait, reads with the read concern "majority" or "snapshot"
// and change streams do not show the commits, and FailOver loses them. It does nothing on
// a standalone server.
func (s *Server) HoldReplication() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Standalone || s.replication.held {
		return
	}
	s.replication.held, s.replication.majority = true, s.clock
}

// Replicate gives the other members all commits, and ends HoldReplication.
func (s *Server) Replicate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicate()
}

func (s *Server) replicate() {
	s.replication.held = false
	s.replication.wake()
	s.wakeStreams()
	s.pruneStale()
}

// FailOver makes another member the primary. Commits that the majority did not have are
// rolled back, and open transactions are aborted. Connections stay open, as if the old
// primary had stepped down. See https://www.mongodb.com/docs/manual/core/replica-set-rollbacks/.
func (s *Server) FailOver() {
	s.StepDown()
	s.mu.Lock()
	if s.replication.held {
		s.rollBack(s.replication.majority)
	}
	s.replicate()
	s.mu.Unlock()
	s.StepUp()
}

// majority returns the last commit that the majority has.
func (s *Server) majority() uint64 {
	if s.replication.held {
		return s.replication.majority
	}
	return s.clock
}

// rollBack undoes the commits after one. It keeps new collections and indexes.
func (s *Server) rollBack(to uint64) {
	for _, c := range s.collections {
		var undone []*record
		c.records.Scan(func(_ uint64, r *record) bool {
			if r.latest().at > to {
				undone = append(undone, r)
			}
			return true
		})
		for _, r := range undone {
			for r.latest().at > to {
				doc := r.latest().doc
				r.versions = r.versions[:len(r.versions)-1]
				c.unindex(r, doc)
			}
			if len(r.versions) == 0 {
				c.records.Delete(r.number)
			}
		}
	}
	s.events = slices.DeleteFunc(s.events, func(e *changeEvent) bool { return e.at > to })
	for _, open := range s.cursors {
		if stream, ok := open.(*changeStream); ok {
			stream.position = min(stream.position, s.forgotten+len(s.events))
		}
	}
	for _, ses := range s.sessions {
		for number, reply := range ses.replies {
			if reply.at > to {
				delete(ses.replies, number)
			}
		}
	}
}

// awaitMajority waits until the majority has what a command has written. The command has
// been done in any case: an error is a write concern error in its reply. A command that
// changed nothing waits for all commits before it, as on servers.
func (s *Server) awaitMajority(req *request, c command, reply bson.D) (bson.D, error) {
	switch {
	case !c.write && req.name != "commitTransaction", req.tx != nil, req.unanswered, !s.replication.held:
		return reply, nil
	}
	if !isMajority(req) {
		return reply, nil
	}
	limit := time.Duration(math.MaxInt64)
	if ms, ok := req.generic.WriteConcern.Lookup("wtimeout").AsInt64OK(); ok && ms > 0 {
		limit = time.Duration(ms) * time.Millisecond
	}
	written, term, began := s.clock, s.topology.term, time.Now()
	for {
		var failure *commandError
		switch {
		case s.topology.secondary || s.topology.term != term:
			failure = &commandError{code: codePrimarySteppedDown, message: "Primary stepped down while waiting for replication"}
		case s.majority() >= written:
			return reply, nil
		case time.Since(began) >= limit:
			failure = &commandError{code: codeWriteConcernFailed, message: "waiting for replication timed out"}
		default:
			err := s.wait(req, s.replication.changed, limit-time.Since(began))
			if err == nil {
				continue
			}
			if failure = asCommandError(err); failure.code != codeMaxTimeExpired {
				return nil, err
			}
		}
		failure.label(req)
		return s.withWriteConcernError(reply, failure), nil
	}
}

// isMajority reports whether a command waits until the majority has what it wrote.
func isMajority(req *request) bool {
	w, ok := req.generic.WriteConcern.Lookup("w").StringValueOK()
	return ok && w == "majority"
}

// withWriteConcernError adds a write concern error to a reply.
func (s *Server) withWriteConcernError(reply bson.D, failure *commandError) bson.D {
	reply = append(reply, bson.E{Key: "writeConcernError", Value: bson.D{
		{Key: "code", Value: failure.code}, {Key: "codeName", Value: codeName(failure.code)}, {Key: "errmsg", Value: failure.message},
	}})
	if len(failure.labels) > 0 {
		reply = append(reply, bson.E{Key: "errorLabels", Value: failure.labels})
	}
	if slices.Contains(roleCodes, failure.code) {
		reply = append(reply, bson.E{Key: "topologyVersion", Value: s.topology.version})
	}
	return reply
}
