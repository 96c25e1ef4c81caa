package mongotest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// genericFields are the fields that every command may have.
type genericFields struct {
	DB               string   `bson:"$db"`
	LSID             bson.Raw `bson:"lsid"`
	TxnNumber        *int64   `bson:"txnNumber"`
	StartTransaction bool     `bson:"startTransaction"`
	Autocommit       *bool    `bson:"autocommit"`
	ReadConcern      bson.Raw `bson:"readConcern"`
	WriteConcern     bson.Raw `bson:"writeConcern"`
	MaxTimeMS        int64    `bson:"maxTimeMS"`
	ClusterTime      bson.Raw `bson:"$clusterTime"`
	ReadPreference   bson.Raw `bson:"$readPreference"`
	// Comment is kept by servers for their logs only.
	Comment bson.RawValue `bson:"comment"`
}

// request is a command in progress.
type request struct {
	peer     *peer
	name     string
	raw      bson.Raw
	generic  genericFields
	received time.Time
	session  *session
	tx       *transaction // nil outside a transaction
	// unanswered is true if no client waits for the reply.
	unanswered bool
}

// multiDocument reports whether the command is part of a transaction.
func (r *request) multiDocument() bool { return r.generic.Autocommit != nil }

// command describes how a command is run, with the server's lock held.
type command struct {
	run func(*Server, *request) (bson.D, error)
	// inTransaction is true if the command may be part of a transaction.
	inTransaction bool
	// write is true if the command may be a retryable write.
	write bool
	// read is true if a secondary runs the command for clients that may read from one,
	// and anywhere if a secondary runs it for all clients.
	read, anywhere bool
}

// commands are the supported commands. See
// https://www.mongodb.com/docs/manual/reference/command/.
var commands = map[string]command{
	"hello":              {run: (*Server).hello, anywhere: true},
	"ismaster":           {run: (*Server).hello, anywhere: true},
	"isMaster":           {run: (*Server).hello, anywhere: true},
	"ping":               {run: (*Server).ping, anywhere: true},
	"buildInfo":          {run: (*Server).buildInfo, anywhere: true},
	"endSessions":        {run: (*Server).endSessions, anywhere: true},
	"killSessions":       {run: (*Server).killSessions, anywhere: true},
	"insert":             {run: (*Server).insert, inTransaction: true, write: true},
	"update":             {run: (*Server).update, inTransaction: true, write: true},
	"delete":             {run: (*Server).delete, inTransaction: true, write: true},
	"findAndModify":      {run: (*Server).findAndModify, inTransaction: true, write: true},
	"find":               {run: (*Server).find, inTransaction: true, read: true},
	"aggregate":          {run: (*Server).aggregate, inTransaction: true, read: true},
	"distinct":           {run: (*Server).distinct, inTransaction: true, read: true},
	"count":              {run: (*Server).count, read: true},
	"getMore":            {run: (*Server).getMore, inTransaction: true, anywhere: true},
	"killCursors":        {run: (*Server).killCursors, inTransaction: true, anywhere: true},
	"create":             {run: (*Server).create},
	"drop":               {run: (*Server).drop},
	"dropDatabase":       {run: (*Server).dropDatabase},
	"listCollections":    {run: (*Server).listCollections, read: true},
	"createIndexes":      {run: (*Server).createIndexes},
	"listIndexes":        {run: (*Server).listIndexes, read: true},
	"dropIndexes":        {run: (*Server).dropIndexes},
	"commitTransaction":  {run: (*Server).commitTransaction, inTransaction: true},
	"abortTransaction":   {run: (*Server).abortTransaction, inTransaction: true},
	"configureFailPoint": {run: (*Server).configureFailPoint, anywhere: true},
	"setParameter":       {run: (*Server).setParameter, anywhere: true},
}

// newRequest reads the fields that all commands have in common.
func newRequest(s *Server, client *peer, raw bson.Raw) (*request, error) {
	first, err := raw.IndexErr(0)
	if err != nil {
		return nil, errorf(codeFailedToParse, "the command is empty or malformed")
	}
	req := &request{peer: client, name: first.Key(), raw: raw, received: time.Now()}
	if _, err = decodeFields(raw, &req.generic); err != nil {
		return nil, errorf(codeTypeMismatch, "reading %s: %s", req.name, err)
	}
	if s.options.Standalone && req.generic.TxnNumber != nil {
		return nil, errorf(codeIllegalOperation, "Transaction numbers are only allowed on a replica set member or mongos")
	}
	return req, nil
}

// run runs a command with the lock held, in its session and transaction.
func (s *Server) run(req *request) (bson.D, error) {
	c, ok := commands[req.name]
	if !ok {
		return nil, errorf(codeCommandNotFound, "no such command: '%s'", req.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireTransactions()
	s.costs.command(req.name)
	clock := s.clock
	if err := s.checkRole(req, c); err != nil {
		return nil, err
	}
	if err := s.enterSession(req, c); err != nil {
		return nil, err
	}
	reply, err := c.run(s, req)
	s.leaveSession(req, err)
	if err != nil {
		return nil, err
	}
	if s.clock > clock && req.tx == nil && isMajority(req) {
		s.costs.Journaled++
	}
	return s.awaitMajority(req, c, reply)
}

// decode reads a command into a struct whose bson tags name all the fields
// that the command may have.
func (r *request) decode(into any) error {
	return decodeStrict(r.name, r.raw, into, reflect.TypeFor[genericFields]())
}

// decodeStrict reads a document into a struct, and refuses fields that neither
// the struct nor one of the further types has a tag for.
func decodeStrict(what string, raw bson.Raw, into any, also ...reflect.Type) error {
	unknown, err := decodeFields(raw, into)
	if err != nil {
		return errorf(codeTypeMismatch, "%s: %s", what, err)
	}
	for _, name := range unknown {
		has := func(t reflect.Type) bool { _, ok := fieldsOf(t)[name]; return ok }
		if !slices.ContainsFunc(also, has) {
			return errorf(codeUnknownField, "BSON field '%s.%s' is an unknown field.", what, name)
		}
	}
	return nil
}

// wait releases the lock until something happens. It returns an error if the request's
// time is up, its client has hung up, or the server is closed.
func (s *Server) wait(req *request, event <-chan struct{}, atMost time.Duration) error {
	if limit := time.Duration(req.generic.MaxTimeMS) * time.Millisecond; limit > 0 {
		left := limit - time.Since(req.received)
		if left <= 0 {
			return errorf(codeMaxTimeExpired, "operation exceeded time limit")
		}
		atMost = min(atMost, left)
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-event:
	case <-timer.C:
	case <-s.closed:
		return errCloseConnection
	case <-req.peer.gone:
		return errCloseConnection
	}
	return nil
}

// errCloseConnection ends the connection of a request instead of a reply.
var errCloseConnection = errors.New("the connection must be closed")

// namespace returns the full name of a command's collection.
func (r *request) namespace(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, "$\x00") || strings.HasPrefix(name, ".") {
		return "", errorf(codeInvalidNamespace, "Invalid collection name: %q", name)
	}
	if r.generic.DB == "" || strings.ContainsAny(r.generic.DB, "/\\. \"$\x00") {
		return "", errorf(codeInvalidNamespace, "Invalid database name: %q", r.generic.DB)
	}
	return r.generic.DB + "." + name, nil
}
