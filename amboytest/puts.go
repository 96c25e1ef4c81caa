package amboytest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mongodb/amboy"
)

// Definition is a *job.Definition or a *job.ResultDefinition.
type Definition[A any] interface {
	Type() amboy.JobType
	Args(j amboy.Job) (A, error)
}

// Put is a job that was put.
type Put[A any] struct {
	// Args are the job's arguments.
	Args A
	// Info describes the job's latest attempt.
	Info amboy.JobInfo
	// Job is the latest attempt.
	Job amboy.Job
}

// Puts returns the jobs of a definition that are in a queue, whatever their state, in the
// order in which they were put; a retry counts as a new put. The test fails if they can't
// be read, or if the queue is not an amboy.JobFinder.
func Puts[A any](t testing.TB, q amboy.Queue, d Definition[A]) []Put[A] {
	t.Helper()
	var puts []Put[A]
	for _, info := range find(t, q, amboy.JobQuery{Types: []string{d.Type().Name}}) {
		j, ok := q.Get(t.Context(), info.ID)
		if !ok {
			t.Fatalf("amboytest: job %q can't be read", info.ID)
		}
		args, err := d.Args(j)
		if err != nil {
			t.Fatalf("amboytest: %v", err)
		}
		puts = append(puts, Put[A]{Args: args, Info: info, Job: j})
	}
	return puts
}

// RequirePut fails the test unless a job of a definition was put with equal arguments, as
// compared by reflect.DeepEqual. It returns the first such job.
func RequirePut[A any](t testing.TB, q amboy.Queue, d Definition[A], args A) Put[A] {
	t.Helper()
	puts := Puts(t, q, d)
	for _, put := range puts {
		if reflect.DeepEqual(put.Args, args) {
			return put
		}
	}
	t.Fatalf("amboytest: no %q job was put with %#v; %s%s", d.Type().Name, args, list(puts), removedHint(q))
	return Put[A]{}
}

// RequireNoPut fails the test if a job of a definition was put, unless the queue has removed it
// after its retention.
func RequireNoPut[A any](t testing.TB, q amboy.Queue, d Definition[A]) {
	t.Helper()
	if puts := Puts(t, q, d); len(puts) > 0 {
		t.Fatalf("amboytest: %q jobs should not have been put; %s", d.Type().Name, list(puts))
	}
}

// list describes the jobs that were put.
func list[A any](puts []Put[A]) string {
	if len(puts) == 0 {
		return "no such job was put"
	}
	var b strings.Builder
	b.WriteString("jobs put:")
	for _, put := range puts {
		fmt.Fprintf(&b, "\n\t%q (%s): %#v", put.Info.ID, put.Info.State, put.Args)
	}
	return b.String()
}

// removedHint explains, in the message of an assertion that misses jobs, that the queue may have removed
// them; empty if it has removed none.
func removedHint(q amboy.Queue) string {
	own, ok := q.(*Queue)
	if !ok || own.kept == amboy.KeepForever || own.Now().Sub(own.began) < own.kept {
		return ""
	}
	return fmt.Sprintf("; succeeded jobs are removed after %s (see queue.InlineOptions.Retention)", own.kept)
}

// RequireCount fails the test unless exactly want jobs of a queue match a query. Jobs that the
// queue has removed after their retention do not count.
func RequireCount(t testing.TB, q amboy.Queue, want int, query amboy.JobQuery) {
	t.Helper()
	found := find(t, q, query)
	if len(found) == want {
		return
	}
	var b strings.Builder
	for _, info := range found {
		fmt.Fprintf(&b, "\n\t%q of type %q (%s), tags %q", info.ID, info.Type.Name, info.State, info.Tags)
	}
	hint := ""
	if len(found) < want {
		hint = removedHint(q)
	}
	t.Fatalf("amboytest: the query matches %d jobs, want %d%s:%s", len(found), want, hint, b.String())
}

// RequireState fails the test unless the latest attempt of a job has a state.
func RequireState(t testing.TB, q amboy.Queue, id string, want amboy.JobState) {
	t.Helper()
	for _, info := range find(t, q, amboy.JobQuery{}) {
		if info.ID != id {
			continue
		}
		if info.State != want {
			t.Fatalf("amboytest: job %q is %s, want %s (reason: %q, errors: %q)",
				id, info.State, want, info.Reason, info.Status.Errors)
		}
		return
	}
	t.Fatalf("amboytest: job %q does not exist%s", id, removedHint(q))
}

func find(t testing.TB, q amboy.Queue, query amboy.JobQuery) []amboy.JobInfo {
	t.Helper()
	finder, ok := q.(amboy.JobFinder)
	if !ok {
		t.Fatalf("amboytest: queue of type %T is not an amboy.JobFinder", q)
	}
	var found []amboy.JobInfo
	for info, err := range finder.FindJobs(t.Context(), query) {
		if err != nil {
			t.Fatalf("amboytest: %v", err)
		}
		found = append(found, info)
	}
	return found
}
