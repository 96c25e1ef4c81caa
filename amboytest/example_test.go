package amboytest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/retry"
	"github.com/mongodb/amboy/schedule"
)

// The code under test: a new user gets a mail at once, and a reminder a day later.
type letter struct{ To, Text string }

var mailServerIsDown bool

var post = job.Define("example-post", 1, func(_ context.Context, l letter) error {
	if mailServerIsDown {
		return errors.New("the mail server is down")
	}
	fmt.Println("to", l.To+":", l.Text)
	return nil
}, job.Defaults[letter]{MaxAttempts: 3, RetryPolicy: retry.Fixed{Wait: time.Minute}})

func signUp(ctx context.Context, q amboy.Queue, name string) error { //nolint:unparam // The examples sign up the same user.
	if _, err := post.Put(ctx, q, letter{name, "welcome"}); err != nil {
		return err
	}
	_, err := post.Put(ctx, q, letter{name, "how is it going?"}, job.In(24*time.Hour), job.Tags("reminder"))
	return err
}

// Test what was put, without running it.
func Example() {
	t := newT() // the *testing.T of the test
	q := amboytest.New(t)
	if err := signUp(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	amboytest.RequirePut(t, q, post, letter{"ann", "welcome"})
	reminder := amboytest.RequirePut(t, q, post, letter{"ann", "how is it going?"})
	fmt.Println(reminder.Info.State, reminder.Info.Time.WaitUntil.Sub(q.Now()))
	amboytest.RequireCount(t, q, 1, amboy.JobQuery{Tag: "reminder"})
	// Output: scheduled 24h0m0s
}

// Run the jobs, and advance the time.
func ExampleQueue() {
	t := newT()
	q := amboytest.New(t)
	if err := signUp(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	fmt.Println(q.RunAll(t.Context()), "ran")
	q.Advance(24 * time.Hour)
	fmt.Println(q.RunAll(t.Context()), "ran")
	// Output:
	// to ann: welcome
	// 1 ran
	// to ann: how is it going?
	// 1 ran
}

// A job that fails is retried at its time, without waiting for it.
func ExampleQueue_RunFor() {
	t := newT()
	q := amboytest.NewWithOptions(t, queue.InlineOptions{Time: time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)})
	mailServerIsDown = true
	id, err := post.Put(t.Context(), q, letter{"bob", "welcome"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(q.RunFor(t.Context(), 90*time.Second), "ran until", q.Now().Format(time.TimeOnly))
	amboytest.RequireState(t, q, id, amboy.StateScheduled)

	mailServerIsDown = false
	fmt.Println(amboy.Wait(t.Context(), q), q.Now().Format(time.TimeOnly))
	// Output:
	// 2 ran until 09:01:30
	// to bob: welcome
	// true 09:02:00
}

// New takes the *testing.T of the test, and closes the queue at its end.
func ExampleNew() {
	t := newT()
	q := amboytest.New(t)
	if err := post.PutAndWait(t.Context(), q, letter{"ann", "welcome"}); err != nil {
		t.Fatal(err)
	}
	// Output: to ann: welcome
}

// Begin at a time that the test chooses.
func ExampleNewWithOptions() {
	t := newT()
	q := amboytest.NewWithOptions(t, queue.InlineOptions{Time: time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)})
	fmt.Println(q.Now().Format(time.TimeOnly))
	// Output: 09:00:00
}

// Advance only moves the time; RunAll then runs the jobs that are due.
func ExampleQueue_Advance() {
	t := newT()
	q := amboytest.New(t)
	if _, err := post.Put(t.Context(), q, letter{"ann", "good morning"}, job.In(time.Hour)); err != nil {
		t.Fatal(err)
	}
	q.Advance(time.Hour)
	fmt.Println(q.RunAll(t.Context()), "ran")
	// Output:
	// to ann: good morning
	// 1 ran
}

// Run a schedule for two days.
func ExampleQueue_RunSchedule() {
	t := newT()
	q := amboytest.NewWithOptions(t, queue.InlineOptions{Time: time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)})
	s, err := schedule.New(q, schedule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	noon, err := schedule.Cron("0 12 * * *", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	lunch := schedule.JobOf(post, func(tick time.Time) letter { return letter{"ann", "lunch of " + tick.Format("January 2")} })
	if err = s.Add("lunch", noon, lunch, schedule.CatchUpLatest); err != nil {
		t.Fatal(err)
	}
	fmt.Println(q.RunSchedule(t.Context(), s, q.Now().Add(48*time.Hour))) // s is not started
	// Output:
	// to ann: lunch of January 1
	// to ann: lunch of January 2
	// 2 <nil>
}

// Read the arguments of all jobs that were put.
func ExamplePuts() {
	t := newT()
	q := amboytest.New(t)
	if err := signUp(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	for _, put := range amboytest.Puts(t, q, post) {
		fmt.Println(put.Args.Text)
	}
	// Output:
	// welcome
	// how is it going?
}

// Require a job with these arguments.
func ExampleRequirePut() {
	t := newT()
	q := amboytest.New(t)
	if err := signUp(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	put := amboytest.RequirePut(t, q, post, letter{"ann", "welcome"})
	fmt.Println(put.Info.State)
	// Output: pending
}

// Require that a job was not put.
func ExampleRequireNoPut() {
	t := newT()
	q := amboytest.New(t)
	amboytest.RequireNoPut(t, q, post)
	fmt.Println("nothing was put")
	// Output: nothing was put
}

// Require a number of jobs.
func ExampleRequireCount() {
	t := newT()
	q := amboytest.New(t)
	if err := signUp(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	amboytest.RequireCount(t, q, 2, amboy.JobQuery{})
	amboytest.RequireCount(t, q, 1, amboy.JobQuery{Tag: "reminder"})
	amboytest.RequireCount(t, q, 1, amboy.JobQuery{States: []amboy.JobState{amboy.StateScheduled}})
	fmt.Println("one is scheduled")
	// Output: one is scheduled
}

// Require the state of a job.
func ExampleRequireState() {
	t := newT()
	q := amboytest.New(t)
	id, err := post.Put(t.Context(), q, letter{"ann", "welcome"})
	if err != nil {
		t.Fatal(err)
	}
	q.RunAll(t.Context())
	amboytest.RequireState(t, q, id, amboy.StateSucceeded)
	// Output: to ann: welcome
}

// exampleT replaces the *testing.T that an example does not have.
type exampleT struct{ testing.TB }

func newT() testing.TB                        { return exampleT{} }
func (exampleT) Helper()                      {}
func (exampleT) Cleanup(func())               {}
func (exampleT) Context() context.Context     { return context.Background() }
func (exampleT) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (exampleT) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
