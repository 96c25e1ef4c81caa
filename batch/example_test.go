package batch_test

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

var (
	resize  = job.Define("batch-resize", 1, func(context.Context, string) error { return nil })
	publish = job.Define("batch-publish", 1, func(_ context.Context, album string) error {
		fmt.Println("publishing", album)
		return nil
	})
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// newAlbum returns a batch of jobs that resize pictures.
func newAlbum(id string, pictures ...string) *batch.Batch {
	album, err := batch.New(id)
	must(err)
	for _, picture := range pictures {
		j, err := resize.New(picture)
		must(err)
		must(album.Add(j))
	}
	return album
}

// Resize the pictures of an album, and publish it after all of them are done.
func Example() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 100)
	must(q.Start(ctx))
	defer q.Close(ctx)

	album := newAlbum("album-7", "a.jpg", "b.jpg", "c.jpg")
	last, err := publish.New("album 7")
	must(err)
	must(album.OnSuccess(last))
	handle, err := album.Put(ctx, q)
	must(err)

	progress, err := handle.Wait(ctx)
	must(err)
	fmt.Println(progress.States[amboy.StateSucceeded], "of", progress.Total, "succeeded")
	amboy.WaitJob(ctx, last, q)
	// Unordered output:
	// 3 of 3 succeeded
	// publishing album 7
}

// Another process finds the batch by its ID.
func ExampleOpen() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 100)
	defer q.Close(ctx)
	_, err := newAlbum("album-8", "a.jpg").Put(ctx, q)
	must(err)

	handle, err := batch.Open(ctx, q, "album-8")
	must(err)
	progress, err := handle.Progress(ctx)
	must(err)
	fmt.Println(progress.Ended(), "of", progress.Total, "ended")
	must(q.Start(ctx))
	progress, err = handle.Wait(ctx)
	must(err)
	fmt.Printf("%.0f%%\n", 100*progress.Fraction())
	// Output:
	// 0 of 1 ended
	// 100%
}

// Put jobs together, and one that runs when all have ended, whatever happened.
func ExampleNew() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 100)
	must(q.Start(ctx))
	defer q.Close(ctx)

	album, err := batch.New("") // a random ID
	must(err)
	picture, err := resize.New("a.jpg")
	must(err)
	must(album.Add(picture))
	last, err := publish.New("what is there")
	must(err)
	must(album.OnEnd(last))
	_, err = album.Put(ctx, q)
	must(err)
	amboy.Wait(ctx, q)
	// Output: publishing what is there
}

// Read which jobs of a batch have failed.
func ExampleHandle_Jobs() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 100)
	must(q.Start(ctx))
	defer q.Close(ctx)
	handle, err := newAlbum("album-9", "a.jpg").Put(ctx, q)
	must(err)
	_, err = handle.Wait(ctx)
	must(err)
	for info, err := range handle.Jobs(ctx) {
		must(err)
		fmt.Println(info.Type.Name, info.State)
	}
	// Output: batch-resize succeeded
}
