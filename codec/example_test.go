package codec_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

type card struct {
	Number string `json:"number"`
}

var charge = job.DefineResult("charge", 1, func(_ context.Context, c card) (string, error) {
	return "charged " + c.Number, nil
})

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// open opens a queue that encrypts with the first key.
func open(ctx context.Context, store *memory.Driver, first codec.Key, others ...codec.Key) *queue.Store {
	encrypting, err := codec.NewAESGCM(first, others...)
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 1, Codec: encrypting})
	must(err)
	must(q.Start(ctx))
	of, _ := queue.StoreOf(q)
	return of
}

// run runs a job, and shows what the store has of it.
func run(ctx context.Context, store *memory.Driver, s *queue.Store, id string) {
	q, _ := s.Queue("")
	_, err := charge.Put(ctx, q, card{Number: "4111"}, job.ID(id))
	must(err)
	result, err := charge.Wait(ctx, q, id)
	must(err)
	r, err := store.Get(ctx, "", id)
	must(err)
	fmt.Println(result, "- stored as plain text:", bytes.Contains(r.Job.Raw(), []byte("4111")) || bytes.Contains(r.Result.Raw(), []byte("4111")))
}

// Encrypt the arguments and results of jobs, and change the key.
func ExampleNewAESGCM() {
	ctx := context.Background()
	// Read keys from a secret store, and decode them if they are text: openssl rand -base64 32
	// prints 32 bytes as 44 characters.
	march := codec.Key{ID: "2026-03", Secret: bytes.Repeat([]byte("m"), codec.KeyBytes)}
	april := codec.Key{ID: "2026-04", Secret: bytes.Repeat([]byte("a"), codec.KeyBytes)}
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)

	before := open(ctx, store, march)
	run(ctx, store, before, "one")
	q, _ := before.Queue("")
	_, err = charge.Put(ctx, q, card{Number: "4222"}, job.ID("two"), job.In(time.Hour))
	must(err)
	q.Close(ctx)

	during := open(ctx, store, april, march) // decrypts with both keys
	run(ctx, store, during, "three")
	done, err := during.Reencode(ctx)
	must(err)
	fmt.Println("waiting jobs encrypted with the new key:", done)
	q, _ = during.Queue("")
	q.Close(ctx)

	after := open(ctx, store, april)
	q, _ = after.Queue("")
	defer q.Close(ctx)
	two, _ := q.Get(ctx, "two")
	args, err := charge.Args(two)
	must(err)
	fmt.Println("readable:", args.Number)
	_, found := q.Get(ctx, "one")
	fmt.Println("ended before the change, readable:", found)
	// Output:
	// charged 4111 - stored as plain text: false
	// charged 4111 - stored as plain text: false
	// waiting jobs encrypted with the new key: 1
	// readable: 4222
	// ended before the change, readable: false
}
