package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// encrypting returns a codec with keys of these IDs.
func encrypting(t *testing.T, first string, others ...string) codec.Codec {
	t.Helper()
	key := func(id string) codec.Key {
		return codec.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), codec.KeyBytes)}
	}
	var rest []codec.Key
	for _, id := range others {
		rest = append(rest, key(id))
	}
	c, err := codec.NewAESGCM(key(first), rest...)
	require.NoError(t, err)
	return c
}

// withStore runs a test in a bubble, with an empty store. open opens a queue on it, as
// another process does.
func withStore(t *testing.T, test func(t *testing.T, store driver.Driver, open func(codec.Codec) amboy.RetryableQueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{KeepFinished: 100})
		require.NoError(t, err)
		test(t, store, func(c codec.Codec) amboy.RetryableQueue {
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "q", NumWorkers: 1, Codec: c})
			require.NoError(t, err)
			t.Cleanup(func() { q.Close(context.Background()) })
			return q
		})
	})
}

func start(t *testing.T, q amboy.Queue) amboy.Queue {
	t.Helper()
	require.NoError(t, q.Start(t.Context()))
	return q
}

func TestAJobIsLeftToAProcessThatHasItsKey(t *testing.T) {
	for name, lacking := range map[string]func(t *testing.T) codec.Codec{
		"another key":   func(t *testing.T) codec.Codec { return encrypting(t, "old") },
		"no codec":      func(*testing.T) codec.Codec { return nil },
		"another codec": func(*testing.T) codec.Codec { return failing{} },
	} {
		t.Run(name, func(t *testing.T) {
			withStore(t, func(t *testing.T, store driver.Driver, open func(codec.Codec) amboy.RetryableQueue) {
				knowing := open(encrypting(t, "new", "old"))
				ran := make(chan string, 100)
				j := newJob(t, "new", func(context.Context, *funcJob) { ran <- "new" })
				put(t, knowing, retryable(j, 2))

				without := start(t, open(lacking(t)))
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Empty(t, ran)
				r, err := store.Get(t.Context(), "q", "new")
				require.NoError(t, err)
				if driver.StateOf(r, time.Now()) == amboy.StatePending { // this is a turn of the others
					time.Sleep(2 * time.Second)
					r, err = store.Get(t.Context(), "q", "new")
					require.NoError(t, err)
				}
				assert.Equal(t, amboy.StateBlocked, driver.StateOf(r, time.Now()))
				assert.Contains(t, r.Status.Reason, `key "new"`)
				assert.Zero(t, r.Status.Interruptions.Total())
				_, ok := without.Get(t.Context(), "new")
				assert.False(t, ok)

				// Other jobs of its kind do not wait for it.
				plain := open(nil)
				put(t, plain, newJob(t, "plain", func(context.Context, *funcJob) { ran <- "plain" }))
				assert.Equal(t, "plain", <-ran)

				start(t, knowing)
				require.True(t, amboy.WaitJob(within(t), j, knowing), "%v %v", infoOf(t, plain, "new"), infoOf(t, plain, "plain"))
				assert.Equal(t, "new", <-ran)
			})
		})
	}
}

// failing is a codec that fails.
type failing struct{ unavailable bool }

func (f failing) Name() string { return "failing" }

func (f failing) err() error {
	if f.unavailable {
		return codec.ErrKeyUnavailable
	}
	return errors.New("no luck")
}

func (f failing) Encode(codec.Field, []byte) (keyID string, encoded []byte, err error) {
	return "", nil, f.err()
}

func (f failing) Decode(codec.Field, string, []byte) ([]byte, error) { return nil, f.err() }

func TestPutReturnsTheErrorOfTheCodec(t *testing.T) {
	withStore(t, func(t *testing.T, _ driver.Driver, open func(codec.Codec) amboy.RetryableQueue) {
		err := open(failing{}).Put(t.Context(), noop(t, "one"))
		require.ErrorContains(t, err, `encoding the stored job of job "one" of type "func": codec "failing": no luck`)
		err = open(failing{unavailable: true}).Put(t.Context(), noop(t, "one"))
		require.ErrorIs(t, err, codec.ErrKeyUnavailable)
	})
}

// What is encoded for one job is refused in another, and the job is parked with the reason.
func TestAJobWithChangedDataIsParked(t *testing.T) {
	withStore(t, func(t *testing.T, store driver.Driver, open func(codec.Codec) amboy.RetryableQueue) {
		q := open(encrypting(t, "key"))
		put(t, q, noop(t, "one"), noop(t, "two"))
		one, err := store.Get(t.Context(), "q", "one")
		require.NoError(t, err)
		two, err := store.Get(t.Context(), "q", "two")
		require.NoError(t, err)
		two.Job = one.Job
		require.NoError(t, store.Save(t.Context(), two))
		start(t, q)
		time.Sleep(time.Second)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "one").State)
		info := infoOf(t, q, "two")
		assert.Equal(t, amboy.StateParked, info.State)
		assert.Contains(t, info.Status.Reason, `job "two"`)
		assert.Contains(t, info.Status.Reason, `decrypting with key "key": the encrypted data was changed, or belongs to another job`)
	})
}

// A body that a run has not changed stays as it was stored, unless the key has changed.
func TestAnUnchangedBodyIsNotEncodedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		note, key string
		same      bool
	}{
		"unchanged":   {key: "old", same: true},
		"changed":     {note: "changed", key: "old"},
		"another key": {key: "new"},
	} {
		t.Run(name, func(t *testing.T) {
			withStore(t, func(t *testing.T, store driver.Driver, open func(codec.Codec) amboy.RetryableQueue) {
				put(t, open(encrypting(t, "old")), newJob(t, "one", func(_ context.Context, j *funcJob) { j.Note = test.note }))
				before, err := store.Get(t.Context(), "q", "one")
				require.NoError(t, err)
				c := encrypting(t, "old")
				if test.key != "old" {
					c = encrypting(t, test.key, "old")
				}
				q := start(t, open(c))
				drain(t, q)
				after, err := store.Get(t.Context(), "q", "one")
				require.NoError(t, err)
				assert.Equal(t, test.same, bytes.Equal(before.Job.Raw(), after.Job.Raw()))
				assert.Equal(t, test.note, jobOf(t, q, "one").(*funcJob).Note)
			})
		})
	}
}

func TestJobsFromBeforeTheCodecRun(t *testing.T) {
	withStore(t, func(t *testing.T, store driver.Driver, open func(codec.Codec) amboy.RetryableQueue) {
		put(t, open(nil), noop(t, "before"))
		q := start(t, open(encrypting(t, "key")))
		drain(t, q)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "before").State)
		r, err := store.Get(t.Context(), "q", "before")
		require.NoError(t, err)
		assert.True(t, r.Job.IsSealed(), "it is encoded when it is written again")
	})
}

func TestAJobWhoseKeyIsMissingExpires(t *testing.T) {
	withStore(t, func(t *testing.T, _ driver.Driver, open func(codec.Codec) amboy.RetryableQueue) {
		j := noop(t, "late")
		j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		put(t, open(encrypting(t, "key")), j)
		q := start(t, open(nil))
		time.Sleep(2 * time.Minute)
		assert.Equal(t, amboy.StateExpired, infoOf(t, q, "late").State)
	})
}

// A worker outside of the program gets the plain payload, and only from a process that has the
// key.
func TestOutsideWorkersGetPlainPayloads(t *testing.T) {
	withStore(t, func(t *testing.T, _ driver.Driver, open func(codec.Codec) amboy.RetryableQueue) {
		lease := func(c codec.Codec) []outside.Job {
			d, err := outside.New(start(t, open(c)), outside.Options{})
			require.NoError(t, err)
			defer func() { assert.NoError(t, d.Close(t.Context())) }()
			jobs, err := d.Lease(t.Context(), outside.LeaseRequest{Queues: []string{"q"}, Types: []string{"remote"}, Wait: 10 * time.Second})
			require.NoError(t, err)
			return jobs
		}
		j, err := job.NewOutside(amboy.JobType{Name: "remote"}, job.Payload{JSON: json.RawMessage(`"secret"`)})
		require.NoError(t, err)
		put(t, open(encrypting(t, "key")), j)
		assert.Empty(t, lease(nil))
		jobs := lease(encrypting(t, "new", "key"))
		require.Len(t, jobs, 1)
		assert.Equal(t, `"secret"`, string(jobs[0].Payload.JSON)) //nolint:testifylint // It is compared as a text.
	})
}

func TestRecordsOfAStoreAreDecodedOnRequest(t *testing.T) {
	withStore(t, func(t *testing.T, store driver.Driver, open func(codec.Codec) amboy.RetryableQueue) {
		q := open(encrypting(t, "key"))
		j := noop(t, "one")
		j.Note = "secret"
		put(t, q, j)
		of, ok := queue.StoreOf(q)
		require.True(t, ok)
		assert.True(t, of.HasCodec("q"))
		r, err := of.Admin().Get(t.Context(), "q", "one")
		require.NoError(t, err)
		assert.True(t, r.Job.IsSealed())
		_, err = r.Resolve(amboy.BSON)
		require.ErrorContains(t, err, "it is encoded by a codec")
		decoded, err := of.Decode(r)
		require.NoError(t, err)
		got, err := decoded.Resolve(amboy.BSON)
		require.NoError(t, err)
		assert.Equal(t, "secret", got.(*funcJob).Note)

		all := queue.StoreOfDriver(store)
		assert.False(t, all.HasCodec("q"))
		_, err = all.Decode(r)
		require.ErrorIs(t, err, codec.ErrKeyUnavailable)
	})
}

func TestTheCodecIsAnOptionOfTheGroup(t *testing.T) {
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	g, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1, Codec: encrypting(t, "key")},
	})
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close(context.Background())) }()
	q, err := g.Get(t.Context(), "a")
	require.NoError(t, err)
	put(t, q, noop(t, "one"))
	drain(t, q)
	of, ok := queue.StoreOfGroup(g)
	require.True(t, ok)
	assert.True(t, of.HasCodec("closed"))
	r, err := of.Admin().Get(t.Context(), "a", "one")
	require.NoError(t, err)
	assert.True(t, r.Job.IsSealed())
}

func TestMongoDBQueuesHaveTheCodecOfTheirOptions(t *testing.T) {
	server := mongotest.Open(t, mongotest.InMemory())
	db := queue.MongoDBOptions{Client: server.Client(), DB: server.Database(), Collection: "queue", Codec: encrypting(t, "key")}
	opts := queue.MongoDBQueueOptions{DB: &db, NumWorkers: new(1)}
	single, err := queue.NewMongoDBQueue(t.Context(), opts)
	require.NoError(t, err)
	defer single.Close(context.Background())
	db.Collection = "group"
	g, err := queue.NewMongoDBSingleQueueGroup(t.Context(), queue.MongoDBQueueGroupOptions{DefaultQueue: opts})
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close(context.Background())) }()
	grouped, err := g.Get(t.Context(), "a")
	require.NoError(t, err)
	own, err := g.Get(t.Context(), "b", &queue.MongoDBQueueOptions{DB: &queue.MongoDBOptions{Codec: encrypting(t, "own")}})
	require.NoError(t, err)
	for _, q := range []amboy.Queue{single, grouped, own} {
		later := noop(t, "one")
		later.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
		put(t, q, later)
		s, ok := queue.StoreOf(q)
		require.True(t, ok)
		r, err := s.Admin().Get(t.Context(), s.Queues()[0], "one")
		require.NoError(t, err)
		assert.True(t, r.Job.IsSealed())
		jobOf(t, q, "one")
	}
	all, ok := queue.StoreOfGroup(g)
	require.True(t, ok)
	for _, name := range []string{"a", "b"} {
		r, err := all.Admin().Get(t.Context(), name, "one")
		require.NoError(t, err)
		_, err = all.Decode(r)
		assert.NoError(t, err, "with the codec of queue %q", name)
	}
}

func TestReencodeStoresWaitingJobsWithTheFirstKey(t *testing.T) {
	eachKindOfStore(t, func(t *testing.T, newStore storeMaker) {
		store := newStore(t)()
		open := func(c codec.Codec) amboy.RetryableQueue {
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "q", NumWorkers: 1, Codec: c})
			require.NoError(t, err)
			t.Cleanup(func() { q.Close(context.Background()) })
			return q
		}
		of := func(q amboy.Queue) *queue.Store {
			s, ok := queue.StoreOf(q)
			require.True(t, ok)
			return s
		}
		note := func(id string) *funcJob {
			j := noop(t, id)
			j.Note = id
			return j
		}
		later := note("old later")
		later.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
		put(t, open(encrypting(t, "old")), retryable(note("old"), 3), later)
		both := open(encrypting(t, "new", "old"))
		put(t, both, note("new"))

		_, err := of(open(encrypting(t, "third"))).Reencode(t.Context())
		require.ErrorIs(t, err, codec.ErrKeyUnavailable)
		done, err := of(open(nil)).Reencode(t.Context())
		require.NoError(t, err)
		assert.Zero(t, done, "a queue without a codec encodes nothing")

		put(t, open(nil), note("plain"))
		done, err = of(both).Reencode(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, done)
		done, err = of(both).Reencode(t.Context())
		require.NoError(t, err)
		assert.Zero(t, done)

		only := open(encrypting(t, "new"))
		for _, id := range []string{"old", "old later", "plain", "new"} {
			assert.Equal(t, id, jobOf(t, only, id).(*funcJob).Note)
		}
		r, err := store.Get(t.Context(), "q", "old later")
		require.NoError(t, err)
		assert.Equal(t, amboy.StateScheduled, driver.StateOf(r, time.Now()))
	})
}

func TestReencodeOfAQueueByReference(t *testing.T) {
	s, ok := queue.StoreOf(queue.NewLocalLimitedSize(1, 10))
	require.True(t, ok)
	_, err := s.Reencode(t.Context())
	require.ErrorIs(t, err, queue.ErrByReference)
}
