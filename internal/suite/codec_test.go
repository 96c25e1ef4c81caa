package suite_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// rawStores open a driver on an empty store. content returns everything that is stored.
var rawStores = map[string]func(t *testing.T) (store driver.Driver, content func() []byte){
	"sqlite":   rawSQLite,
	"postgres": rawPostgres,
	"mongodb":  rawMongoDB,
}

func rawSQLite(t *testing.T) (store driver.Driver, content func() []byte) {
	dir := t.TempDir()
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "jobs.db")})
	require.NoError(t, err)
	return d, func() (all []byte) {
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(filepath.Join(dir, file.Name()))
			require.NoError(t, err)
			all = append(all, data...)
		}
		return all
	}
}

// rawPostgres returns the rows as JSON, and the columns of bytes as bytes.
func rawPostgres(t *testing.T) (store driver.Driver, content func() []byte) {
	pool, schema := pgtest.Pool(t), pgtest.EmptySchema(t)
	d, err := postgres.Open(t.Context(), postgres.Options{Pool: pool, Schema: schema})
	require.NoError(t, err)
	strings := func(query string, args ...any) (all []string) {
		rows, err := pool.Query(t.Context(), query, args...)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var one string
			require.NoError(t, rows.Scan(&one))
			all = append(all, one)
		}
		require.NoError(t, rows.Err())
		return all
	}
	return d, func() (all []byte) {
		for _, table := range strings(`SELECT quote_ident(schemaname)||'.'||quote_ident(tablename) FROM pg_tables WHERE schemaname = $1`, schema) {
			for _, row := range strings(`SELECT row_to_json(r)::text FROM ` + table + ` r`) {
				all = append(all, row...)
				var columns map[string]any
				require.NoError(t, json.Unmarshal([]byte(row), &columns))
				for _, value := range columns {
					if text, ok := value.(string); ok && len(text) > 2 && text[:2] == `\x` {
						data, err := hex.DecodeString(text[2:])
						require.NoError(t, err)
						all = append(all, data...)
					}
				}
			}
		}
		return all
	}
}

func rawMongoDB(t *testing.T) (store driver.Driver, content func() []byte) {
	server := mongotest.Open(t)
	d, err := mongodb.Open(t.Context(), mongodb.Options{Client: server.Client(), DB: server.Database(), Collection: "raw", Grouped: true})
	require.NoError(t, err)
	return d, func() (all []byte) {
		db := server.Client().Database(server.Database())
		names, err := db.ListCollectionNames(t.Context(), bson.D{})
		require.NoError(t, err)
		for _, name := range names {
			cursor, err := db.Collection(name).Find(t.Context(), bson.D{})
			require.NoError(t, err)
			for cursor.Next(t.Context()) {
				all = append(all, cursor.Current...)
			}
			require.NoError(t, cursor.Err())
		}
		return all
	}
}

type classified struct {
	Text string `json:"text" bson:"text"`
}

// classify fails its first attempt after a checkpoint.
var classify = job.DefineResult("suite-classify", 1, func(ctx context.Context, c classified) (classified, error) {
	if job.AttemptFrom(ctx) == 0 {
		return classified{}, errors.Join(job.Checkpoint(ctx, classified{"secret checkpoint"}), errors.New("not yet"))
	}
	return classified{"secret result"}, nil
}, job.Defaults[classified]{MaxAttempts: 2})

// A reader of the store finds no part of the arguments, checkpoints and results of encoded
// jobs, but everything of others.
func TestAStoreHoldsNoPlaintextOfEncodedJobs(t *testing.T) {
	encrypting, err := codec.NewAESGCM(codec.Key{ID: "suite", Secret: make([]byte, codec.KeyBytes)})
	require.NoError(t, err)
	for name, open := range rawStores {
		for title, with := range map[string]codec.Codec{"encrypted": encrypting, "plain": nil} {
			t.Run(name+" "+title, func(t *testing.T) {
				store, content := open(t)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				putSecrets(ctx, t, store, with)
				left := content()
				for _, secret := range []string{
					"secret arguments", "secret checkpoint", "secret result",
					"secret note", "secret later", "secret payload", "secret progress of a worker", "secret answer",
				} {
					assert.Equal(t, with == nil, bytes.Contains(left, []byte(secret)), secret)
				}
				for _, readable := range []string{"classified-1", "suite-classify", "not yet", "by tag"} {
					assert.Contains(t, string(left), readable)
				}
			})
		}
	}
}

// putSecrets puts and runs jobs of all sorts, and closes the store.
func putSecrets(ctx context.Context, t *testing.T, store driver.Driver, with codec.Codec) {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "raw", NumWorkers: 1, Codec: with})
	require.NoError(t, err)
	require.NoError(t, q.Start(ctx))
	defer q.Close(ctx)

	id, err := classify.Put(ctx, q, classified{"secret arguments"}, job.ID("classified-1"), job.Tags("by tag"))
	require.NoError(t, err)
	result, err := classify.Wait(ctx, q, id)
	require.NoError(t, err)
	assert.Equal(t, "secret result", result.Text)
	before, err := q.GetAttempt(ctx, id, 0)
	require.NoError(t, err)
	args, err := classify.Args(before)
	require.NoError(t, err)
	assert.Equal(t, "secret checkpoint", args.Text)

	_, err = classify.Put(ctx, q, classified{"secret arguments"}, job.In(patience))
	require.NoError(t, err)

	own := newFuncJob()
	own.SetID("own")
	own.Note = "secret note"
	later := newFuncJob()
	later.SetID("later")
	later.Note = "secret later"
	later.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
	require.NoError(t, q.PutMany(ctx, []amboy.Job{own, later}))
	require.True(t, amboy.WaitJob(ctx, own, q))
	require.True(t, amboy.WaitJob(ctx, later, q))

	d, err := outside.New(q, outside.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close(ctx)) }()
	for _, ack := range []outside.Ack{
		{},
		{Checkpoint: &outside.Checkpoint{Payload: &job.Payload{JSON: json.RawMessage(`"secret progress of a worker"`)}}},
		{Complete: &outside.Complete{Result: json.RawMessage(`"secret answer"`)}},
	} {
		j, err := job.NewOutside(amboy.JobType{Name: "suite-outside"}, job.Payload{JSON: json.RawMessage(`"secret payload"`)})
		require.NoError(t, err)
		require.NoError(t, q.Put(ctx, j))
		leased, err := d.Lease(ctx, outside.LeaseRequest{Queues: []string{"raw"}, Types: []string{"suite-outside"}, Wait: patience})
		require.NoError(t, err)
		require.Len(t, leased, 1)
		assert.Equal(t, `"secret payload"`, string(leased[0].Payload.JSON)) //nolint:testifylint // It is compared as a text.
		if ack.Token = leased[0].Token; ack.Complete != nil || ack.Checkpoint != nil {
			require.NoError(t, errors.Join(d.Acknowledge(ctx, ack)...))
		}
	}
}
