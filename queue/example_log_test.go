package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

var resizePicture = job.Define("example.resize-picture", 1, func(_ context.Context, path string) error {
	if path == "" {
		return errors.New("unknown picture format")
	}
	return nil
})

// With the threshold debug, the start and the end of each job are logged.
func ExampleNewLocalLimitedSize_debugLog() {
	service := grip.GetSender()
	levels := service.Level()
	recorder := send.MakeInternalLogger()
	err := errors.Join(
		grip.SetSender(recorder),
		recorder.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Debug}),
	)
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	err = q.Start(ctx)
	_, putGood := resizePicture.Put(ctx, q, "cat.png", job.ID("good"))
	_, putBad := resizePicture.Put(ctx, q, "", job.ID("bad"))
	amboy.Wait(ctx, q)
	q.Close(ctx)

	err = errors.Join(err, putGood, putBad, grip.SetSender(service), service.SetLevel(levels))
	if err != nil {
		log.Fatal(err)
	}
	for recorder.HasMessage() {
		logged := recorder.GetMessage()
		if fields, ok := logged.Message.Raw().(message.Fields); ok {
			fmt.Println(logged.Priority, fields["message"], fields["job_id"])
		}
	}
	// Output:
	// debug job started good
	// debug job ended good
	// debug job started bad
	// error job failed bad
	// debug job ended bad
}
