package mongotest

import (
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
)

// The server presents itself as MongoDB 7.0.
const (
	serverVersion  = "7.0.0"
	maxWireVersion = 21
)

// hello describes the server. See
// https://www.mongodb.com/docs/manual/reference/command/hello/.
func (s *Server) hello(req *request) (bson.D, error) {
	var args struct {
		Hello          any              `bson:"hello"`
		IsMaster       any              `bson:"isMaster"`
		LegacyIsMaster any              `bson:"ismaster"`
		HelloOK        bool             `bson:"helloOk"`
		Client         bson.Raw         `bson:"client"`
		Compression    []string         `bson:"compression"`
		Known          *topologyVersion `bson:"topologyVersion"`
		AwaitMS        *int64           `bson:"maxAwaitTimeMS"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	if err := s.awaitTopology(req, args.Known, args.AwaitMS); err != nil {
		return nil, err
	}
	if name, ok := args.Client.Lookup("application", "name").StringValueOK(); ok {
		req.peer.appName = name
	}
	writable := "isWritablePrimary"
	if req.name != "hello" {
		writable = "ismaster"
	}
	reply := bson.D{
		{Key: "helloOk", Value: true},
		{Key: "topologyVersion", Value: s.topology.version},
		{Key: writable, Value: !s.topology.secondary},
		{Key: "maxBsonObjectSize", Value: int32(maxDocumentSize)},
		{Key: "maxMessageSizeBytes", Value: int32(maxMessageSize)},
		{Key: "maxWriteBatchSize", Value: int32(maxWriteBatch)},
		{Key: "localTime", Value: primitive.NewDateTimeFromTime(s.localTime())},
		{Key: "logicalSessionTimeoutMinutes", Value: int32(30)},
		{Key: "minWireVersion", Value: int32(0)},
		{Key: "maxWireVersion", Value: s.options.WireVersion},
		{Key: "readOnly", Value: false},
	}
	if s.options.Standalone {
		return reply, nil
	}
	reply = append(reply,
		bson.E{Key: "setName", Value: replicaSetName},
		bson.E{Key: "setVersion", Value: int32(1)},
		bson.E{Key: "secondary", Value: s.topology.secondary},
		bson.E{Key: "hosts", Value: bson.A{s.address}},
		bson.E{Key: "me", Value: s.address},
	)
	if !s.topology.secondary {
		reply = append(reply, bson.E{Key: "electionId", Value: s.topology.electionID()}, bson.E{Key: "primary", Value: s.address})
	}
	return reply, nil
}

// ping replies. See https://www.mongodb.com/docs/manual/reference/command/ping/.
func (s *Server) ping(req *request) (bson.D, error) {
	var args struct {
		Ping any `bson:"ping"`
	}
	return bson.D{}, req.decode(&args)
}

// buildInfo returns the version. See
// https://www.mongodb.com/docs/manual/reference/command/buildInfo/.
func (s *Server) buildInfo(req *request) (bson.D, error) {
	var args struct {
		BuildInfo any `bson:"buildInfo"`
	}
	return bson.D{
		{Key: "version", Value: serverVersion},
		{Key: "versionArray", Value: bson.A{int32(7), int32(0), int32(0), int32(0)}},
		{Key: "bits", Value: int32(64)},
		{Key: "maxBsonObjectSize", Value: int32(maxDocumentSize)},
	}, req.decode(&args)
}
