package job_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

// resize is a hand-written job type: the embedded Base, its own fields, and Run.
type resize struct {
	job.Base `bson:"job_base" json:"job_base"`
	Path     string `bson:"path" json:"path"`
	Width    int    `bson:"width" json:"width"`
	// Size is the result, in bytes.
	Size int `bson:"size" json:"size"`
}

var resizeType = amboy.JobType{Name: "resize", Version: 1}

func init() {
	registry.AddJobType(resizeType.Name, func() amboy.Job {
		return &resize{Base: job.Base{JobType: resizeType}}
	})
}

func newResize(path string, width int) *resize {
	j := &resize{Base: job.Base{JobType: resizeType}, Path: path, Width: width}
	j.SetID(fmt.Sprintf("resize.%s.%d", path, width))
	return j
}

func (j *resize) Run(ctx context.Context) {
	defer j.MarkComplete()
	size, err := shrink(ctx, j.Path, j.Width)
	if err != nil {
		j.AddError(fmt.Errorf("resizing %q: %w", j.Path, err))
		return
	}
	j.Size = size
}

// shrink stands for the actual work.
func shrink(ctx context.Context, path string, width int) (size int, err error) {
	if filepath.Ext(path) != ".png" {
		return 0, errors.New("unknown picture format")
	}
	return 3 * width, context.Cause(ctx)
}

// Embed Base to write a job type by hand.
func ExampleBase() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 100)
	if err := q.Start(ctx); err != nil {
		panic(err)
	}
	defer q.Close(ctx)
	if err := q.PutMany(ctx, []amboy.Job{newResize("cat.png", 64), newResize("dog.doc", 64)}); err != nil {
		panic(err)
	}
	amboy.Wait(ctx, q)

	if j, ok := q.Get(ctx, "resize.cat.png.64"); ok {
		fmt.Println(j.(*resize).Size, j.Error())
	}
	for j := range q.Results(ctx) {
		fmt.Println(j.ID(), amboy.NewJobInfo(j).State)
	}
	// Output:
	// 192 <nil>
	// resize.cat.png.64 succeeded
	// resize.dog.doc.64 failed
}

// download is a hand-written job that fails in its first two attempts.
type download struct {
	job.Base `bson:"job_base" json:"job_base"`
}

func (j *download) Run(context.Context) {
	defer j.MarkComplete()
	if attempt := j.RetryInfo().CurrentAttempt; attempt < 2 {
		j.AddRetryableError(fmt.Errorf("server is busy at attempt %d", attempt))
	}
}

// A hand-written job that is retryable, and asks for another attempt, is tried again.
func ExampleBase_AddRetryableError() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 1000)
	if err := q.Start(ctx); err != nil {
		panic(err)
	}
	defer q.Close(ctx)

	j := &download{}
	j.SetID("download.report")
	j.UpdateRetryInfo(amboy.JobRetryOptions{
		Retryable:   new(true),
		MaxAttempts: new(5),
		WaitUntil:   new(10 * time.Millisecond), // between two attempts
	})
	if err := q.Put(ctx, j); err != nil {
		panic(err)
	}
	amboy.Wait(ctx, q)

	fmt.Println("attempt", j.RetryInfo().CurrentAttempt, amboy.NewJobInfo(j).State)
	for _, failure := range j.Status().Attempts {
		fmt.Println(failure.Attempt, failure.Error)
	}
	// Output:
	// attempt 2 succeeded
	// 0 server is busy at attempt 0
	// 1 server is busy at attempt 1
}
