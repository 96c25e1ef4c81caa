package mongodb_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// A primary dies while a Put waits for a connection of the pool.
func TestAPutThatWaitedForAConnectionWasGivenUpWhenThePrimaryDied(t *testing.T) {
	s := mongotest.Open(t, mongotest.StandIn())
	const puts = "puts"
	waiting, dies := make(chan struct{}, 100), make(chan struct{})
	client, err := mongo.Connect(t.Context(), s.ClientOptions().SetAppName(puts).SetMaxPoolSize(1).SetPoolMonitor(&event.PoolMonitor{Event: func(e *event.PoolEvent) {
		if e.Type == event.GetStarted {
			waiting <- struct{}{}
		}
	}}))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	d := openOn(t, s, func(o *mongodb.Options) { o.Client = client })
	putAll(t, d, plainRecord("before"))
	var once sync.Once
	inserting := make(chan struct{})
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		fate := mongotest.Served
		if c.AppName == puts && c.Name == "insert" {
			once.Do(func() {
				close(inserting)
				<-dies
				fate = mongotest.Unserved
			})
		}
		return fate
	})
	var results sync.WaitGroup
	put := func(id string) {
		results.Go(func() {
			errs, err := d.Insert(t.Context(), []*driver.Record{plainRecord(id)})
			if assert.NoError(t, err, id) {
				assert.NoError(t, errs[0], id)
			}
		})
	}
	put("first")
	<-inserting
	for len(waiting) > 0 {
		<-waiting
	}
	put("second")
	<-waiting
	close(dies)
	results.Wait()
}
