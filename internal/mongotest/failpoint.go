package mongotest

import (
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// failPoint is the failCommand fail point. See
// https://github.com/mongodb/mongo/wiki/The-failCommand-Fail-Point.
type failPoint struct {
	times       int64 // how often it still applies; negative means always
	skip        int64
	probability float64 // 0 means that it always applies
	data        failData
}

type failData struct {
	Commands          []string  `bson:"failCommands"`
	ErrorCode         *int32    `bson:"errorCode"`
	ErrorLabels       *[]string `bson:"errorLabels"`
	CloseConnection   bool      `bson:"closeConnection"`
	BlockConnection   bool      `bson:"blockConnection"`
	BlockTimeMS       int64     `bson:"blockTimeMS"`
	AppName           string    `bson:"appName"`
	Namespace         string    `bson:"namespace"`
	WriteConcernError bson.D    `bson:"writeConcernError"`
}

// configureFailPoint sets or unsets the fail point.
func (s *Server) configureFailPoint(req *request) (bson.D, error) {
	var args struct {
		Name string        `bson:"configureFailPoint"`
		Mode bson.RawValue `bson:"mode"`
		Data bson.Raw      `bson:"data"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	if req.generic.DB != "admin" {
		return nil, errorf(13, "configureFailPoint may only be run against the admin database.")
	}
	if args.Name != "failCommand" {
		return nil, errorf(249, "There is no fail point named %q in mongotest, only failCommand", args.Name)
	}
	point, err := newFailPoint(args.Mode, args.Data)
	if err != nil {
		return nil, err
	}
	s.failMu.Lock()
	defer s.failMu.Unlock()
	s.fail = point
	return bson.D{{Key: "count", Value: int32(0)}}, nil
}

// newFailPoint reads a fail point. It returns nil if its mode is off.
func newFailPoint(mode bson.RawValue, data bson.Raw) (*failPoint, error) {
	point := &failPoint{times: -1}
	if name, ok := mode.StringValueOK(); ok {
		switch name {
		case "off":
			return nil, nil
		case "alwaysOn":
		default:
			return nil, errorf(codeBadValue, "unknown mode of a fail point: %s", name)
		}
	} else if err := point.readMode(mode); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, errorf(codeBadValue, "failCommand needs data")
	}
	if err := decodeStrict("failCommand.data", data, &point.data); err != nil {
		return nil, err
	}
	if len(point.data.Commands) == 0 {
		return nil, errorf(codeBadValue, "failCommand needs failCommands")
	}
	if point.data.BlockConnection && point.data.BlockTimeMS <= 0 {
		return nil, errorf(codeInvalidOptions, "If 'blockConnection' is true, 'blockTimeMS' must be positive")
	}
	return point, nil
}

func (p *failPoint) readMode(mode bson.RawValue) error {
	doc, ok := mode.DocumentOK()
	if !ok {
		return errorf(codeTypeMismatch, "the mode of a fail point must be a string or an object")
	}
	var args struct {
		Times       *int64  `bson:"times"`
		Skip        int64   `bson:"skip"`
		Probability float64 `bson:"activationProbability"`
	}
	if err := decodeStrict("configureFailPoint.mode", doc, &args); err != nil {
		return err
	}
	if args.Times != nil {
		if *args.Times < 0 {
			return errorf(codeBadValue, "'times' option to 'mode' must be positive")
		}
		p.times = *args.Times
	}
	if args.Probability < 0 || args.Probability > 1 {
		return errorf(codeBadValue, "activationProbability must be between 0.0 and 1.0")
	}
	p.skip, p.probability = args.Skip, args.Probability
	return nil
}

// fault returns what the fail point does to a request, or nil if it does nothing.
func (s *Server) fault(req *request) *failData {
	s.failMu.Lock()
	defer s.failMu.Unlock()
	p := s.fail
	switch {
	case p == nil || p.times == 0 || !slices.Contains(p.data.Commands, req.name):
		return nil
	case p.data.AppName != "" && p.data.AppName != req.peer.appName,
		p.data.Namespace != "" && p.data.Namespace != req.target():
		return nil
	case p.probability > 0 && rand.Float64() >= p.probability: //nolint:gosec // chance of a test
		return nil
	case p.skip > 0:
		p.skip--
		return nil
	}
	if p.times > 0 {
		p.times--
	}
	return &p.data
}

// target returns the namespace that a command names, valid or not.
func (r *request) target() string {
	field := r.name
	if field == "getMore" {
		field = "collection"
	}
	collection, _ := r.raw.Lookup(field).StringValueOK()
	return r.generic.DB + "." + collection
}

// runWithFaults runs a command, unless the fail point makes it fail.
func (s *Server) runWithFaults(req *request) (bson.D, error) {
	data := s.fault(req)
	if data == nil || req.name == "configureFailPoint" {
		return s.run(req)
	}
	if data.BlockConnection {
		timer := time.NewTimer(time.Duration(data.BlockTimeMS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.closed:
			return nil, errCloseConnection
		}
	}
	if data.CloseConnection {
		return nil, errCloseConnection
	}
	if data.ErrorCode != nil && *data.ErrorCode != 0 {
		err := &commandError{code: *data.ErrorCode, message: "Failing command via 'failCommand' failpoint"}
		if data.ErrorLabels != nil {
			err.labels = append([]string{}, *data.ErrorLabels...)
		}
		return nil, err
	}
	reply, err := s.run(req)
	if err == nil && data.WriteConcernError != nil {
		reply = append(reply, bson.E{Key: "writeConcernError", Value: data.WriteConcernError})
		if labels := data.writeConcernLabels(req); len(labels) > 0 {
			reply = append(reply, bson.E{Key: "errorLabels", Value: labels})
		}
		reply = s.withTopology(reply, data.writeConcernCode())
	}
	return reply, err
}

func (d *failData) writeConcernCode() int32 {
	c, _ := number(bsonvalue.Field(d.WriteConcernError, "code"))
	return int32(c)
}

// writeConcernLabels returns the labels of a reply with a write concern error.
func (d *failData) writeConcernLabels(req *request) []string {
	if d.ErrorLabels != nil {
		return *d.ErrorLabels
	}
	if req.generic.TxnNumber != nil && slices.Contains(retryableCodes, d.writeConcernCode()) {
		return []string{labelRetryable}
	}
	return nil
}
