package mongotest

import (
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// session is the server's state of a client's logical session. See
// https://www.mongodb.com/docs/manual/reference/server-sessions/.
type session struct {
	number int64 // of its last retryable write or transaction; -1 before
	// replies are the replies to the statements of the last retryable write.
	replies map[int]sentReply
	// tx is the last transaction, and state is its state.
	tx    *transaction
	state txState
}

// sentReply is the reply to a statement.
type sentReply struct {
	at     uint64 // the last commit then
	result any
}

type txState int

const (
	txNone txState = iota
	txOpen
	txCommitted
	txAborted
)

// enterSession finds the session of a request, and starts or continues its
// transaction.
func (s *Server) enterSession(req *request, c command) error {
	g := &req.generic
	if g.TxnNumber == nil {
		if g.Autocommit != nil || g.StartTransaction {
			return errorf(codeInvalidOptions, "'autocommit' and 'startTransaction' need a txnNumber")
		}
		return nil
	}
	if len(g.LSID) == 0 {
		return errorf(codeInvalidOptions, "Transaction number requires a session ID to also be specified")
	}
	id := keyString(g.LSID.Lookup("id").String())
	ses, ok := s.sessions[id]
	if !ok {
		ses = &session{number: -1}
		s.sessions[id] = ses
	}
	req.session = ses
	if *g.TxnNumber < ses.number {
		return errorf(codeTransactionTooOld, "Cannot start transaction with { txnNumber: %d } on session because a newer transaction with txnNumber %d has already started on this session.", *g.TxnNumber, ses.number)
	}
	if g.Autocommit == nil {
		return s.enterRetryableWrite(req, c)
	}
	return s.enterTransaction(req, c)
}

// enterRetryableWrite forgets the statements of the session's last write if this is a new
// one.
func (s *Server) enterRetryableWrite(req *request, c command) error {
	if !c.write {
		return errorf(codeNotInTransaction, "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided, and %s is not a retryable write command.", req.name)
	}
	if *req.generic.TxnNumber > req.session.number {
		s.renumber(req)
	}
	return nil
}

// renumber makes the request's number the session's, and aborts an open transaction of
// the session.
func (s *Server) renumber(req *request) {
	ses := req.session
	if ses.state == txOpen {
		s.abortIfOpen(ses.tx)
	}
	*ses = session{number: *req.generic.TxnNumber, replies: map[int]sentReply{}}
}

func (s *Server) abortIfOpen(tx *transaction) {
	if _, ok := s.open[tx]; ok {
		s.abort(tx)
	}
}

func (s *Server) enterTransaction(req *request, c command) error {
	g := &req.generic
	if *g.Autocommit {
		return errorf(codeInvalidOptions, "autocommit must be false")
	}
	if !c.inTransaction {
		return errorf(codeNotInTransaction, "Cannot run '%s' in a multi-document transaction.", req.name)
	}
	ses := req.session
	if g.StartTransaction {
		if *g.TxnNumber == ses.number {
			return errorf(codeTransactionReused, "Cannot start a transaction at given transaction number %d: the number has already been used", *g.TxnNumber)
		}
		s.renumber(req)
		ses.tx, ses.state = s.begin(false), txOpen
	}
	if *g.TxnNumber != ses.number || ses.state == txNone {
		return errorf(codeNoSuchTransaction, "Given transaction number %d does not match any in-progress transactions. The active transaction number is %d", *g.TxnNumber, ses.number)
	}
	if _, ok := s.open[ses.tx]; !ok && ses.state == txOpen { // it exceeded its lifetime
		ses.state = txAborted
	}
	if req.name == "commitTransaction" || req.name == "abortTransaction" {
		return nil
	}
	switch ses.state {
	case txAborted:
		return errorf(codeNoSuchTransaction, "Transaction with { txnNumber: %d } has been aborted.", *g.TxnNumber)
	case txCommitted:
		return errorf(codeTransactionDone, "Transaction with { txnNumber: %d } has been committed.", *g.TxnNumber)
	default:
		req.tx = ses.tx
		return nil
	}
}

// leaveSession aborts a transaction after one of its statements failed. See
// https://www.mongodb.com/docs/manual/core/transactions/#transactions-and-atomicity.
func (s *Server) leaveSession(req *request, err error) {
	if err != nil && req.tx != nil {
		s.abortRequest(req)
	}
}

func (s *Server) abortRequest(req *request) {
	s.abortIfOpen(req.tx)
	req.session.state = txAborted
}

// commitTransaction commits. Committing again is no error, so that a commit can be
// repeated. See https://www.mongodb.com/docs/manual/reference/command/commitTransaction/.
func (s *Server) commitTransaction(req *request) (bson.D, error) {
	ses, err := endingSession(req)
	if err != nil {
		return nil, err
	}
	switch ses.state {
	case txOpen:
		s.commit(ses.tx)
		s.costs.of(SessionsCollection).Singly++
		ses.state = txCommitted
	case txAborted:
		return nil, errorf(codeNoSuchTransaction, "Transaction with { txnNumber: %d } has been aborted.", ses.number)
	}
	return bson.D{}, nil
}

// abortTransaction aborts. See
// https://www.mongodb.com/docs/manual/reference/command/abortTransaction/.
func (s *Server) abortTransaction(req *request) (bson.D, error) {
	ses, err := endingSession(req)
	if err != nil {
		return nil, err
	}
	switch ses.state {
	case txOpen:
		s.abort(ses.tx)
		ses.state = txAborted
	case txAborted:
		return nil, errorf(codeNoSuchTransaction, "Transaction with { txnNumber: %d } has been aborted.", ses.number)
	case txCommitted:
		return nil, errorf(codeTransactionDone, "Transaction with { txnNumber: %d } has been committed.", ses.number)
	}
	return bson.D{}, nil
}

// endingSession returns the session whose transaction a command ends.
func endingSession(req *request) (*session, error) {
	var args struct {
		Commit        any      `bson:"commitTransaction"`
		Abort         any      `bson:"abortTransaction"`
		RecoveryToken bson.Raw `bson:"recoveryToken"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	if req.generic.DB != "admin" {
		return nil, errorf(13, "%s may only be run against the admin database.", req.name)
	}
	if !req.multiDocument() {
		return nil, errorf(codeCommandNotFound, "%s must be run within a transaction", req.name)
	}
	return req.session, nil
}

// killSessions aborts the transactions of sessions. See
// https://www.mongodb.com/docs/manual/reference/command/killSessions/.
func (s *Server) killSessions(req *request) (bson.D, error) {
	var args struct {
		Sessions []bson.Raw `bson:"killSessions"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	for _, lsid := range args.Sessions {
		ses := s.sessions[keyString(lsid.Lookup("id").String())]
		if ses != nil && ses.state == txOpen {
			s.abortIfOpen(ses.tx)
			ses.state = txAborted
		}
	}
	return bson.D{}, nil
}

// endSessions removes sessions and aborts their open transactions. See
// https://www.mongodb.com/docs/manual/reference/command/endSessions/.
func (s *Server) endSessions(req *request) (bson.D, error) {
	var args struct {
		Sessions []bson.Raw `bson:"endSessions"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	for _, lsid := range args.Sessions {
		id := keyString(lsid.Lookup("id").String())
		if ses, ok := s.sessions[id]; ok {
			s.abortIfOpen(ses.tx)
			delete(s.sessions, id)
		}
	}
	return bson.D{}, nil
}

// setParameter changes the lifetime of transactions, which is the only parameter of this server. It returns
// the previous one. See
// https://www.mongodb.com/docs/manual/reference/parameters/#mongodb-parameter-param.transactionLifetimeLimitSeconds.
func (s *Server) setParameter(req *request) (bson.D, error) {
	var args struct {
		Set      any    `bson:"setParameter"`
		Lifetime *int64 `bson:"transactionLifetimeLimitSeconds"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	switch {
	case req.generic.DB != "admin":
		return nil, errorf(13, "setParameter may only be run against the admin database.")
	case args.Lifetime == nil:
		return nil, errorf(codeBadValue, "no option found to set, use help:true to see options")
	case *args.Lifetime < 1:
		return nil, errorf(codeBadValue, "Invalid value for parameter transactionLifetimeLimitSeconds: %d is not greater than or equal to 1", *args.Lifetime)
	}
	was := s.options.TransactionLifetime
	s.options.TransactionLifetime = time.Duration(*args.Lifetime) * time.Second
	return bson.D{{Key: "was", Value: int32(was / time.Second)}}, nil
}

// once runs a statement of a retryable write unless it was run before, and returns its
// result or the remembered one. See
// https://www.mongodb.com/docs/manual/core/retryable-writes/.
func once[T any](s *Server, req *request, number int, run func() (T, error)) (result T, retried bool, err error) {
	remembers := req.session != nil && !req.multiDocument()
	if remembers {
		if earlier, ok := req.session.replies[number].result.(T); ok {
			return earlier, true, nil
		}
	}
	result, err = run()
	if err == nil && remembers {
		s.costs.of(SessionsCollection).Singly++
		req.session.replies[number] = sentReply{at: s.clock, result: result}
	}
	return result, false, err
}
