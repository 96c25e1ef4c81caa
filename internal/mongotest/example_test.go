package mongotest_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/mongotest"
)

// A test starts a server and passes its options to the driver. A fault is injected as
// into a real server.
func Example() {
	server, err := mongotest.New(mongotest.Options{InMemory: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()
	client, err := mongo.Connect(ctx, server.ClientOptions().SetRetryWrites(false))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { fmt.Println("disconnected:", client.Disconnect(ctx)) }()

	err = client.Database("admin").RunCommand(ctx, bson.D{
		{Key: "configureFailPoint", Value: "failCommand"},
		{Key: "mode", Value: bson.D{{Key: "times", Value: 1}}},
		{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"insert"}}, {Key: "errorCode", Value: 112}}},
	}).Err()
	fmt.Println("configured:", err)
	jobs := client.Database("amboy").Collection("jobs")
	for range 2 {
		_, err = jobs.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}})
		fmt.Println("inserted:", err)
	}
	// Output:
	// configured: <nil>
	// inserted: (WriteConflict) Failing command via 'failCommand' failpoint
	// inserted: <nil>
	// disconnected: <nil>
}
