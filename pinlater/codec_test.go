package pinlater_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
)

// A search by body finds encrypted jobs whose keys the server has, and leaves out others
// instead of failing.
func TestASearchByBodyLeavesOutJobsWhoseKeysAreNotAvailable(t *testing.T) {
	without := overTCP(t, noOptions)
	encrypting, err := codec.NewAESGCM(codec.Key{ID: "key", Secret: make([]byte, codec.KeyBytes)})
	require.NoError(t, err)
	g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: without.driver, Codec: encrypting}, outside.Options{})
	with := &fixture{TB: t, ctx: without.ctx, driver: without.driver, group: g.Queues, dispatcher: g.Dispatcher, listener: outsidetest.Listen(t)}
	with.serve(noOptions)

	plain, encrypted := without.put("body 1"), with.put("body 2")
	request := scanRequest(pending)
	request.BodyRegexToMatch = new("body")
	assert.ElementsMatch(t, []string{plain, encrypted}, with.scan(request))
	assert.Equal(t, []string{plain}, without.scan(request))

	dry := dequeueRequest(10)
	dry.DryRun = true
	response, err := without.client.DequeueJobs(without.ctx, test, dry)
	require.NoError(t, err)
	assert.Contains(t, response.Jobs, plain)
	assert.NotContains(t, response.Jobs, encrypted)
}
