package mongodb_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
)

// claimIn claims a job within the time that the engine gives a claim.
func claimIn(t *testing.T, d driver.Driver) (claimed driver.Claimed, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return d.Claim(ctx, request("owner", 1, "queue"))
}

// onQueries calls a function before each query of claims.
func onQueries(s *mongotest.Deployment, call func() mongotest.Fate) {
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.Name == "aggregate" && c.Collection == "work.group" && c.AppName == s.Database() {
			return call()
		}
		return mongotest.Served
	})
}

// stopOnce makes the next query meet a server that has failed. Another one answers the further ones.
func stopOnce(t *testing.T, s *mongotest.Deployment) (met func() bool) {
	t.Helper()
	stopped := make(chan struct{})
	t.Cleanup(func() { close(stopped) })
	var elected atomic.Bool
	onQueries(s, func() mongotest.Fate {
		if elected.Swap(true) {
			return mongotest.Served
		}
		<-stopped
		return mongotest.Unserved
	})
	return elected.Load
}

// A claim that was sent just before an election waited for the server that had failed until its time was up. So did
// all jobs, although another server had taken its place.
func TestAClaimWaitedForAServerThatHadFailed(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		claimAll(t, d, request("owner", 1, "queue"))
		putAll(t, d, plainRecord("job"))
		pass(time.Minute)
		stopOnce(t, s)
		var claimed driver.Claimed
		var err error
		took := since(func() { claimed, err = claimIn(t, d) })
		require.NoError(t, err)
		assert.Len(t, claimed.Records, 1)
		assert.LessOrEqual(t, took, 1100*time.Millisecond)
	})
}

// The query for queues with work, which claims from many queues wait for, waited too.
func TestAQueryForWorkWaitedForAServerThatHadFailed(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		putAll(t, d, plainRecord("job"))
		pass(time.Minute)
		fails := stopOnce(t, s)
		var work driver.Work
		var err error
		took := since(func() { work, err = d.Work(t.Context(), time.Now()) })
		require.NoError(t, err)
		require.True(t, fails())
		assert.Equal(t, []driver.QueueWork{{Queue: "queue", Ready: true}}, work.Queues)
		assert.LessOrEqual(t, took, 1100*time.Millisecond)
	})
}

// A firewall dropped the connections without an error.
func TestAClaimWaitedOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := mongotest.New(mongotest.Options{InMemory: true})
		require.NoError(t, err)
		t.Cleanup(server.Close)
		s := newStoreOn(t, server.ClientOptions())
		f := &firewall{to: server}
		behind := newStoreOn(t, server.ClientOptions().SetDialer(f))
		behind.db = s.db
		d := behind.open()
		claimAll(t, d, request("owner", 1, "queue"))
		putAll(t, s.open(), plainRecord("job"))
		require.True(t, f.drop())
		var claimed driver.Claimed
		took := since(func() { claimed, err = claimIn(t, d) })
		require.NoError(t, err)
		assert.Len(t, claimed.Records, 1)
		assert.LessOrEqual(t, took, 1100*time.Millisecond)
	})
}

// A server that is slow is asked twice at most, and later once.
func TestASlowServerAnswersClaims(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		const claims = 10
		d := openOn(t, s)
		claimAll(t, d, request("owner", 1, "queue"))
		putAll(t, d, plainRecords(claims)...)
		pass(time.Minute)
		var queries atomic.Int64
		onQueries(s, func() mongotest.Fate {
			queries.Add(1)
			time.Sleep(1500 * time.Millisecond)
			return mongotest.Served
		})
		for range claims {
			claimed, err := claimIn(t, d)
			require.NoError(t, err)
			assert.Len(t, claimed.Records, 1)
		}
		assert.LessOrEqual(t, queries.Load(), int64(claims+1))
	})
}

// All servers have failed: the claim ends in time, and nothing that it began is left.
func TestAClaimEndsInTimeIfNoServerAnswers(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		claimAll(t, d, request("owner", 1, "queue"))
		pass(time.Minute)
		stopped := make(chan struct{})
		var queries atomic.Int64
		onQueries(s, func() mongotest.Fate {
			queries.Add(1)
			<-stopped
			return mongotest.Unserved
		})
		t.Cleanup(func() { close(stopped) })
		var err error
		took := since(func() { _, err = claimIn(t, d) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5*time.Second, took)
		assert.EqualValues(t, 5, queries.Load())
	})
}
