package outside_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// A worker was suspended until its job had ended, was removed, was put again and was leased again by the
// same server. Its token was that of the new run, so the job ended with the result of the old one.
func TestAnAcknowledgementEndedALaterJobOfTheID(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("nightly", `1`)
		old := f.leaseOne()
		require.NoError(f, f.complete(old, `"old"`))
		acted, err := f.driver.Act(f.ctx, driver.ActRequest{
			Query: driver.Query{ID: "nightly"}, Action: driver.Action{Kind: driver.Delete}, Limit: 1,
		})
		require.NoError(f, err)
		require.Equal(f, 1, acted.Done)

		f.put("nightly", `2`)
		current := f.leaseOne()
		require.NotEqual(f, old.Token, current.Token)
		for name, late := range map[string]outside.Ack{
			"complete":   {Complete: &outside.Complete{Result: json.RawMessage(`"late"`)}},
			"fail":       {Fail: &outside.Fail{Error: "late"}},
			"release":    {Release: &outside.Release{}},
			"checkpoint": {Checkpoint: &outside.Checkpoint{Payload: &job.Payload{JSON: json.RawMessage(`"late"`)}}},
		} {
			late.Token = old.Token
			require.ErrorIs(f, f.ack(late), outside.ErrLeaseLost, name)
		}
		beat := outside.Beat{Token: old.Token, Progress: &outside.Progress{Message: "late"}}
		require.ErrorIs(f, f.dispatcher.Heartbeat(f.ctx, beat)[0].Err, outside.ErrLeaseLost)

		require.NoError(f, f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: current.Token})[0].Err)
		require.NoError(f, f.complete(current, `"new"`))
		f.hasState("nightly", amboy.StateSucceeded)
		assert.JSONEq(f, `{"value":"new"}`, string(f.record("nightly").Result.Raw()))
	})
}

// unstamped returns a token as the previous version issued it for the lease, without a stamp.
func (f *fixture) unstamped(t outside.Token) outside.Token {
	f.Helper()
	key, isNew, err := f.driver.KeepNew(f.ctx, driver.Note{
		Kind: "outside-token-key", Key: "key", Value: []byte("none"), Until: time.Now().Add(time.Hour),
	}, time.Now())
	require.NoError(f, err)
	require.False(f, isNew)
	form, err := base64.RawURLEncoding.DecodeString(string(t))
	require.NoError(f, err)
	end := 1 // of the version, five texts and three numbers
	for range 5 {
		size, n := binary.Uvarint(form[end:])
		end += n + int(size)
	}
	for range 3 {
		_, n := binary.Varint(form[end:])
		end += n
	}
	form = form[:end:end]
	form[0] = 2
	mac := hmac.New(sha256.New, key.Value)
	_, _ = mac.Write(form)
	return outside.Token(base64.RawURLEncoding.EncodeToString(append(form, mac.Sum(nil)[:16]...)))
}

// Workers keep the tokens of a server while it is replaced by a new version.
func TestAnUpdateRefusedTheTokensOfTheVersionBefore(t *testing.T) {
	onEach(t, func(f *fixture) {
		updated := f.another()
		f.put("job", `1`)
		leased := f.leaseOne()
		token := f.unstamped(leased.Token)
		queueName, jobType, err := token.Job()
		require.NoError(f, err)
		assert.Equal(f, []string{leased.Queue, leased.Type}, []string{queueName, jobType})
		renewed := func(cancel bool) {
			f.Helper()
			beat := outside.Beat{Token: token, Progress: &outside.Progress{Message: "half"}}
			answer := updated.dispatcher.Heartbeat(f.ctx, beat)[0]
			require.NoError(f, answer.Err)
			assert.Equal(f, cancel, answer.Cancel)
		}
		renewed(false)
		require.NoError(f, updated.ack(outside.Ack{
			Token: token, Checkpoint: &outside.Checkpoint{Payload: &job.Payload{JSON: json.RawMessage(`2`)}},
		}))
		require.NoError(f, updated.ack(outside.Ack{Token: token, Release: &outside.Release{}}))
		lost := func() {
			f.Helper()
			require.ErrorIs(f, updated.ack(outside.Ack{Token: token, Complete: &outside.Complete{}}), outside.ErrLeaseLost)
			require.ErrorIs(f, updated.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: token})[0].Err, outside.ErrLeaseLost)
		}
		lost()

		again := f.leaseOne()
		lost() // the count differs
		token = f.unstamped(again.Token)
		_, err = f.driver.Act(f.ctx, driver.ActRequest{Query: driver.Query{ID: "job"}, Action: driver.Action{Kind: driver.Cancel}, Limit: 1})
		require.NoError(f, err)
		renewed(true)
		require.NoError(f, updated.ack(outside.Ack{Token: token, Complete: &outside.Complete{Result: json.RawMessage(`"done"`)}}))
		f.hasState("job", amboy.StateSucceeded)
		lost()
	})
}
