package mongotest

import (
	"go.mongodb.org/mongo-driver/bson"
)

// Fate is what becomes of an intercepted command.
type Fate int

// The fates.
const (
	// Served commands are run and answered.
	Served Fate = iota
	// Unserved commands are not run. Their connection is closed.
	Unserved
	// Unanswered commands are run, and their connection is closed instead of an answer.
	// They do not wait for the majority.
	Unanswered
	// Late commands are run by RunLate. Their connection is closed at once. This is what a
	// client sees that gives up on a command before the server has begun it.
	Late
	// Deposed commands meet a step-down after the server has accepted them and before their first
	// write: each statement fails with PrimarySteppedDown, and so does the write concern.
	Deposed
)

// Intercepted is a command that a server received.
type Intercepted struct {
	Name, Collection string
	AppName          string // of the client
	Command          bson.Raw
}

// Intercept calls f for each command before it is run, to decide its fate; nil ends that.
// Calls are concurrent. f may call the methods of the server, and holds the command up
// until it returns.
func (s *Server) Intercept(f func(Intercepted) Fate) { s.intercept.Store(&f) }

// RunLate runs the late commands, in the order in which they came.
func (s *Server) RunLate() {
	s.failMu.Lock()
	late := s.late
	s.late = nil
	s.failMu.Unlock()
	for _, req := range late {
		_, _ = s.run(req) // there is no client to answer
	}
}

// serveRequest runs a command, unless it is intercepted.
func (s *Server) serveRequest(req *request) (bson.D, error) {
	f := s.intercept.Load()
	if f == nil || *f == nil {
		return s.runWithFaults(req)
	}
	collection, _ := req.raw.Lookup(req.name).StringValueOK()
	switch (*f)(Intercepted{Name: req.name, Collection: collection, AppName: req.peer.appName, Command: req.raw}) {
	case Unserved:
		return nil, errCloseConnection
	case Unanswered:
		req.unanswered = true
		_, _ = s.runWithFaults(req) // the client does not learn of it
		return nil, errCloseConnection
	case Deposed:
		s.FailOver()
		return deposed(req), nil
	case Late:
		s.failMu.Lock()
		defer s.failMu.Unlock()
		// Its client is gone, but the command must not notice.
		late := *req
		late.unanswered = true
		late.peer = &peer{appName: req.peer.appName, gone: make(chan struct{})}
		s.late = append(s.late, &late)
		return nil, errCloseConnection
	default:
		return s.runWithFaults(req)
	}
}

// deposed returns the reply to a write that met a step-down. See handleError in
// https://github.com/mongodb/mongo/blob/r5.0.7/src/mongo/db/ops/write_ops_exec.cpp.
func deposed(req *request) bson.D {
	failure := func(more ...bson.E) bson.D {
		return append(bson.D{{Key: "code", Value: int32(codePrimarySteppedDown)}, {Key: "errmsg", Value: "Not primary while writing"}}, more...)
	}
	failures := bson.A{}
	for _, statements := range []string{"updates", "documents", "deletes"} {
		list, _ := req.raw.Lookup(statements).ArrayOK()
		values, _ := list.Values()
		for i := range values {
			failures = append(failures, failure(bson.E{Key: "index", Value: int32(i)}))
		}
	}
	return bson.D{
		{Key: "n", Value: int32(0)},
		{Key: "nModified", Value: int32(0)},
		{Key: "writeErrors", Value: failures},
		{Key: "writeConcernError", Value: failure()},
	}
}
