package mongotest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// URIVariable is the environment variable with the URI of a real server. If it is set,
// tests run on that server instead of the stand-in.
const URIVariable = "AMBOY_TEST_MONGODB_URI"

// Deployment is the MongoDB deployment of a test: the server that URIVariable names, or
// else a server of this package that the test has for itself. It has a database of its
// own, which is dropped when the test ends. All its methods are safe for concurrent use.
type Deployment struct {
	t          testing.TB
	uri        string
	database   string
	replicaSet bool
	server     *Server // nil if the server is real
	client     *mongo.Client
	aside      *mongo.Client // for the test's own commands, which are not counted
	commands   Commands
}

// Option is a requirement of a test for its deployment.
type Option func(*needs)

type needs struct {
	standalone, replicaSet, inMemory, standIn bool
}

// Standalone requires a server without a replica set: without transactions, retryable
// writes and change streams. The test is skipped on other servers.
func Standalone() Option { return func(n *needs) { n.standalone = true } }

// ReplicaSet requires a replica set. The test is skipped on a standalone server. The
// stand-in is a replica set by default.
func ReplicaSet() Option { return func(n *needs) { n.replicaSet = true } }

// StandIn requires features that only the stand-in has. The test is skipped on real
// servers.
func StandIn() Option { return func(n *needs) { n.standIn = true } }

// InMemory makes the stand-in listen on no port, so that it and its clients can run in a
// bubble of testing/synctest. Clients must then be made with ClientOptions, not with the
// URI. The test is skipped on real servers.
func InMemory() Option { return func(n *needs) { n.inMemory, n.standIn = true, true } }

// Open opens a deployment for a test and closes it when the test ends. The test fails if
// there is no deployment, and is skipped if it requires another kind.
func Open(t testing.TB, opts ...Option) *Deployment {
	t.Helper()
	var n needs
	for _, option := range opts {
		option(&n)
	}
	d := &Deployment{t: t, uri: os.Getenv(URIVariable), database: "amboy_" + primitive.NewObjectID().Hex()}
	if d.uri == "" {
		d.start(n)
	} else if n.standIn {
		t.Skip("the test needs features of the mongotest server")
	}
	d.client = d.Connect()
	d.aside = d.connect(d.plainOptions())
	if d.IsReal() {
		t.Cleanup(func() {
			if err := d.aside.Database(d.database).Drop(context.Background()); err != nil {
				t.Errorf("dropping the database %s: %s", d.database, err)
			}
		})
	}
	d.replicaSet = d.askReplicaSet()
	switch {
	case n.standalone && d.replicaSet:
		t.Skip("the test needs a server without a replica set")
	case n.replicaSet && !d.replicaSet:
		t.Skip("the test needs a replica set")
	}
	return d
}

// start starts a stand-in.
func (d *Deployment) start(n needs) {
	d.t.Helper()
	server, err := New(Options{Standalone: n.standalone, InMemory: n.inMemory})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(server.Close)
	d.server, d.uri = server, server.URI()
}

// askReplicaSet asks the server whether it is a replica set or a sharded cluster.
func (d *Deployment) askReplicaSet() bool {
	d.t.Helper()
	var hello struct {
		SetName string `bson:"setName"`
		Msg     string `bson:"msg"`
	}
	err := d.aside.Database("admin").RunCommand(d.t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	if err != nil {
		d.t.Fatalf("querying the type of the server: %s", err)
	}
	return hello.SetName != "" || hello.Msg == "isdbgrid"
}

// IsReal reports whether the deployment is a real server.
func (d *Deployment) IsReal() bool { return d.server == nil }

// IsReplicaSet reports whether the deployment is a replica set, which has
// transactions, retryable writes and change streams.
func (d *Deployment) IsReplicaSet() bool { return d.replicaSet }

// Server returns the stand-in, for features that only it has. On a real server it skips
// the test.
func (d *Deployment) Server() *Server {
	d.t.Helper()
	if d.server == nil {
		d.t.Skip("the test needs features of the mongotest server")
	}
	return d.server
}

// Database returns the name of the test's database.
func (d *Deployment) Database() string { return d.database }

// URI returns the connection string, also for clients in other processes. It contains the
// application name by which Fail identifies the clients of the test.
func (d *Deployment) URI() string {
	separator := "&"
	if !strings.Contains(d.uri, "?") {
		separator = "?"
		if rest := d.uri[strings.Index(d.uri, "://")+3:]; !strings.Contains(rest, "/") {
			separator = "/?"
		}
	}
	return d.uri + separator + "appName=" + url.QueryEscape(d.database)
}

// ClientOptions returns new client options. The commands of such clients are counted.
func (d *Deployment) ClientOptions() *options.ClientOptions {
	return d.plainOptions().SetAppName(d.database).SetMonitor(d.commands.Monitor())
}

func (d *Deployment) plainOptions() *options.ClientOptions {
	if d.server != nil {
		return d.server.ClientOptions()
	}
	return options.Client().ApplyURI(d.uri)
}

// Client returns the client for the code under test. Its commands are counted.
func (d *Deployment) Client() *mongo.Client { return d.client }

// Connect returns another client, as another process would have. It is closed when the
// test ends. Its commands are counted.
func (d *Deployment) Connect() *mongo.Client {
	d.t.Helper()
	return d.connect(d.ClientOptions())
}

func (d *Deployment) connect(opts *options.ClientOptions) *mongo.Client {
	d.t.Helper()
	client, err := mongo.Connect(d.t.Context(), opts)
	if err != nil {
		d.t.Fatalf("connecting: %s", err)
	}
	d.t.Cleanup(func() {
		if err := client.Disconnect(context.Background()); err != nil {
			d.t.Errorf("disconnecting: %s", err)
		}
	})
	return client
}

// Collection returns a collection of the test's database for the test's own commands,
// which are not counted and do not fail because of Fail.
func (d *Deployment) Collection(name string) *mongo.Collection {
	return d.aside.Database(d.database).Collection(name)
}

// Commands returns the counts of the commands that the counted clients have sent.
func (d *Deployment) Commands() *Commands { return &d.commands }

// Fail makes commands of the test's clients fail from now on, and replaces an earlier
// Failure. It ends with the test at the latest. A real server must have its test commands
// enabled, otherwise the test is skipped. A real server has a single fail point, so tests
// that use Fail must not run in parallel on it.
func (d *Deployment) Fail(f Failure) {
	d.t.Helper()
	if err := f.check(); err != nil {
		d.t.Fatal(err)
	}
	data := append(f.data(), bson.E{Key: "appName", Value: d.database})
	if f.Collection != "" {
		data = append(data, bson.E{Key: "namespace", Value: d.database + "." + f.Collection})
	}
	d.failPoint(bson.D{{Key: "mode", Value: f.mode()}, {Key: "data", Value: data}})
	if d.IsReal() {
		d.t.Cleanup(d.Heal)
	}
}

// Heal ends the effect of Fail.
func (d *Deployment) Heal() {
	d.t.Helper()
	d.failPoint(bson.D{{Key: "mode", Value: "off"}})
}

func (d *Deployment) failPoint(fields bson.D) {
	d.t.Helper()
	command := append(bson.D{{Key: "configureFailPoint", Value: "failCommand"}}, fields...)
	err := d.aside.Database("admin").RunCommand(context.Background(), command).Err()
	var failed mongo.CommandError
	if errors.As(err, &failed) && failed.Code == codeCommandNotFound {
		d.t.Skip("the server was started without --setParameter enableTestCommands=1")
	}
	if err != nil {
		d.t.Fatalf("setting the fail point: %s", err)
	}
}
