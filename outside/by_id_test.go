package outside_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// resultBytes returns the result of a job as package outside reads it.
func (f *fixture) resultBytes(id string) string {
	f.Helper()
	j, ok := f.queue().Get(f.ctx, id)
	require.True(f, ok)
	content, ok := outside.ResultBytes(j)
	require.True(f, ok)
	return string(content)
}

func TestEndEndsAJobByItsID(t *testing.T) {
	onEach(t, func(f *fixture) {
		bytesOf := func(text string) outside.Ack { return outside.Ack{Complete: &outside.Complete{Bytes: []byte(text)}} }
		f.put("waiting", `1`)
		f.put("scheduled", `1`, job.In(time.Hour))
		f.put("leased", `1`, job.Priority(9))
		leased := f.leaseOne()
		for _, id := range []string{"waiting", "scheduled", "leased"} {
			require.NoError(f, f.dispatcher.End(f.ctx, queueName, id, bytesOf(id)))
			f.hasState(id, amboy.StateSucceeded)
			assert.Equal(f, id, f.resultBytes(id))
			require.ErrorIs(f, f.dispatcher.End(f.ctx, queueName, id, bytesOf("again")), outside.ErrEnded)
		}
		require.ErrorIs(f, f.complete(leased, `2`), outside.ErrLeaseLost)
		assert.Empty(f, f.lease(10))
		f.put("failed", `1`)
		fail := outside.Ack{Fail: &outside.Fail{Error: "no", Permanent: true, Bytes: []byte("why")}}
		require.NoError(f, f.dispatcher.End(f.ctx, queueName, "failed", fail))
		f.hasState("failed", amboy.StateFailed)
		assert.Equal(f, "why", f.resultBytes("failed"))
		assert.True(f, amboy.IsJobNotFoundError(f.dispatcher.End(f.ctx, queueName, "unknown", fail)))
	})
}

func TestEndWakesWhoWaitsForTheJob(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", `1`)
		ended := make(chan error, 1)
		go func() {
			_, err := f.dispatcher.WaitForEnd(f.ctx, queueName, "a")
			ended <- err
		}()
		require.NoError(f, f.dispatcher.End(f.ctx, queueName, "a", outside.Ack{Complete: &outside.Complete{}}))
		require.NoError(f, <-ended)
	})
}

func TestEndRefusesWhatIsNoEnd(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", `1`)
		for _, ack := range []outside.Ack{
			{},
			{Release: &outside.Release{}},
			{Complete: &outside.Complete{Result: json.RawMessage(`1`), Bytes: []byte("1")}},
			{Complete: &outside.Complete{Bytes: make([]byte, amboy.MaxResultBytes+1)}},
			{Fail: &outside.Fail{Error: "x", Bytes: make([]byte, amboy.MaxResultBytes+1)}},
		} {
			var invalid *outside.InvalidError
			require.ErrorAs(f, f.dispatcher.End(f.ctx, queueName, "a", ack), &invalid)
		}
		f.hasState("a", amboy.StatePending)
	})
}

var allResults = flag.Bool("outside.results", false, "put results of all kinds and the largest size into all stores")

func TestResultsOfBytesComeBackAsTheyWere(t *testing.T) {
	onEach(t, func(f *fixture) {
		contents := map[string]string{
			"empty": "", "text": "a <b> \"c\"\r\n", "not text": "\xff\x00",
			// Nothing is longer in a store: each of its bytes is escaped.
			"markup": strings.Repeat("<", amboy.MaxResultBytes),
		}
		if _, isMemory := f.driver.(*memory.Driver); isMemory || *allResults {
			contents["largest"] = strings.Repeat("x", amboy.MaxResultBytes)
			contents["largest of bytes"] = string(bytes.Repeat([]byte{0xfe}, amboy.MaxResultBytes))
		}
		for name, content := range contents {
			f.put(name, `1`)
			j := f.leaseOne()
			require.NoError(f, f.ack(outside.Ack{Token: j.Token, Complete: &outside.Complete{Bytes: []byte(content)}}))
			same := content == f.resultBytes(name) // a failure does not print a megabyte
			assert.True(f, same, name)
		}
		f.put("json", `1`)
		require.NoError(f, f.complete(f.leaseOne(), `{"n":1}`))
		assert.JSONEq(f, `{"n":1}`, f.resultBytes("json"))
	})
}

func TestLeaseOfSetsTheLengthOfALease(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("long", `1`, job.Metadata(map[string]string{"for": "1h"}), job.Priority(1))
		f.put("short", `1`)
		req := request()
		req.Limit, req.Lease = 2, 10*time.Second
		req.LeaseOf = func(j outside.Job) time.Duration {
			length, _ := time.ParseDuration(j.Metadata["for"]) // 0 for none
			return length
		}
		begin := time.Now().Truncate(time.Millisecond)
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		require.Equal(f, []string{"long", "short"}, ids(jobs))
		f.isAfter(time.Hour, begin, jobs[0].LeaseEnds)
		f.isAfter(10*time.Second, begin, jobs[1].LeaseEnds)
		begin = time.Now().Truncate(time.Millisecond)
		beaten := f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: jobs[0].Token})[0]
		require.NoError(f, beaten.Err)
		f.isAfter(time.Hour, begin, beaten.LeaseEnds)
		require.NoError(f, f.complete(jobs[0], `1`))
	})
}

func TestEndChangesTheMetadata(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`, job.Metadata(map[string]string{"step": "1", "gone": "x"}))
		ack := outside.Ack{Complete: &outside.Complete{}, Metadata: map[string]string{"step": "2", "gone": ""}}
		require.NoError(f, f.dispatcher.End(f.ctx, queueName, "a", ack))
		assert.Equal(f, map[string]string{"step": "2"}, f.record("a").Metadata)
	})
}

func TestACheckpointWithoutAPayloadChangesTheMetadataAlone(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`)
		step := func(j outside.Job, value string) outside.Ack {
			return outside.Ack{Token: j.Token, Checkpoint: &outside.Checkpoint{}, Metadata: map[string]string{"step": value}}
		}
		first := f.leaseOne()
		again := step(first, "2")
		again.Checkpoint.Again = &outside.Release{}
		require.NoError(f, f.ack(again))
		require.ErrorIs(f, f.ack(step(first, "3")), outside.ErrLeaseLost)
		second := f.leaseOne()
		assert.Equal(f, map[string]string{"step": "2"}, second.Metadata)
		assert.Equal(f, first.Payload, second.Payload)
	})
}
