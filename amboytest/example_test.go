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

func signUp(ctx context.Context, q amboy.Queue, name string) error {
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

// exampleT replaces the *testing.T that an example does not have.
type exampleT struct{ testing.TB }

func newT() testing.TB                        { return exampleT{} }
func (exampleT) Helper()                      {}
func (exampleT) Cleanup(func())               {}
func (exampleT) Context() context.Context     { return context.Background() }
func (exampleT) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (exampleT) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
