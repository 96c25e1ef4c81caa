package mongotest

import (
	"encoding/binary"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
)

// topology is the role of the server in its replica set.
type topology struct {
	version   topologyVersion
	changed   chan struct{} // closed and replaced when it changes
	secondary bool
	term      uint32 // of the last election
}

func newTopology() topology {
	return topology{version: topologyVersion{Process: primitive.NewObjectID()}, changed: make(chan struct{}), term: 1}
}

// StepDown makes the server a secondary, so that the replica set has no primary until
// StepUp. It aborts open transactions, and refuses writes and reads that require a
// primary. Clients learn of it at once. It does nothing on a secondary or a standalone
// server. See https://www.mongodb.com/docs/manual/reference/command/replSetStepDown/.
func (s *Server) StepDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topology.secondary || s.options.Standalone {
		return
	}
	for tx := range s.open {
		s.abort(tx)
	}
	s.topology.secondary = true
	s.topology.change()
	s.replication.wake()
}

// StepUp makes the server the primary again. It does nothing on a primary.
func (s *Server) StepUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.topology.secondary {
		return
	}
	s.topology.secondary = false
	s.topology.term++
	s.topology.change()
}

func (t *topology) change() {
	t.version.Counter++
	close(t.changed)
	t.changed = make(chan struct{})
}

// topologyVersion orders descriptions of a server by age.
type topologyVersion struct {
	Process primitive.ObjectID `bson:"processId"`
	Counter int64              `bson:"counter"`
}

// electionID grows with each election.
func (t *topology) electionID() primitive.ObjectID {
	id := primitive.ObjectID{0x7f, 0xff, 0xff, 0xff}
	binary.BigEndian.PutUint32(id[8:], t.term)
	return id
}

// roleCodes are the codes of errors that mean that the server does not have, or will
// lose, the role that a client assumed. Such errors contain the topology version, so that
// clients ignore errors older than what they know. See
// https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-discovery-and-monitoring.md#not-writable-primary-and-node-is-recovering.
var roleCodes = []int32{91, 189, 10107, 11600, 11602, 13435, 13436}

// withTopology adds the topology version to a reply with an error about the server's
// role.
func (s *Server) withTopology(reply bson.D, code int32) bson.D {
	if !slices.Contains(roleCodes, code) {
		return reply
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(reply, bson.E{Key: "topologyVersion", Value: s.topology.version})
}

// awaitTopology makes a hello wait while the client knows the current state of the
// server. Real servers continue to reply to one hello at each change (exhaustAllowed),
// but do not have to: the client sends the next one. See
// https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-monitoring.md#streaming-protocol.
func (s *Server) awaitTopology(req *request, known *topologyVersion, awaitMS *int64) error {
	if (known == nil) != (awaitMS == nil) {
		return errorf(31368, "A request with a 'topologyVersion' must include 'maxAwaitTimeMS', and one with 'maxAwaitTimeMS' a 'topologyVersion'")
	}
	if known == nil || known.Process != s.topology.version.Process {
		return nil
	}
	if *awaitMS < 0 {
		return errorf(31373, "maxAwaitTimeMS must be a non-negative integer")
	}
	if known.Counter > s.topology.version.Counter {
		return errorf(31382, "Received a topology version with counter: %d which is greater than the server topology version counter: %d", known.Counter, s.topology.version.Counter)
	}
	for known.Counter == s.topology.version.Counter {
		left := time.Duration(*awaitMS)*time.Millisecond - time.Since(req.received)
		if left <= 0 {
			return nil
		}
		if err := s.wait(req, s.topology.changed, left); err != nil {
			return err
		}
	}
	return nil
}

// checkRole refuses commands that a secondary does not run. See
// https://www.mongodb.com/docs/manual/core/read-preference/.
func (s *Server) checkRole(req *request, c command) error {
	if !s.topology.secondary || c.anywhere {
		return nil
	}
	if !c.read {
		return errorf(codeNotWritablePrimary, "not primary")
	}
	mode, ok := req.generic.ReadPreference.Lookup("mode").StringValueOK()
	if !ok || mode == "primary" {
		return errorf(codeNotPrimaryNoSecondaryOk, "not primary and secondaryOk=false")
	}
	return nil
}
