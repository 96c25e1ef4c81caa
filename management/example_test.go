package management_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/schedule"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// brokenMail fails for every address but one.
var brokenMail = job.Define("broken mail", 1, func(_ context.Context, to string) error {
	if to != "ann" {
		return errors.New("no such address")
	}
	return nil
})

// List the queues of tenants in pages, and add them up.
func ExampleInspector_pagesOfQueues() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	must(err)
	defer func() { must(group.Close(ctx)) }()
	for n, tenant := range []string{"acme", "globex", "initech", "umbrella"} {
		q, badQueue := group.Get(ctx, tenant)
		must(badQueue)
		for id := range n {
			_, err = brokenMail.Put(ctx, q, "ann", job.ID(fmt.Sprint(id)), job.In(time.Hour))
			must(err)
		}
	}

	i, err := management.NewGroupInspector(group)
	must(err)
	for page := (management.PageRequest{Limit: 2}); ; {
		found, badPage := i.FindQueues(ctx, management.QueueFilter{Name: "e"}, page)
		must(badPage)
		for _, q := range found.Queues {
			fmt.Println(q.Name, q.Counts.Pending)
		}
		if found.Next == "" {
			break
		}
		page.Cursor = found.Next
	}
	totals, err := i.SumQueues(ctx)
	must(err)
	fmt.Println(totals.Counts.Pending, "jobs wait, most of them for", totals.Busiest[0].Name)
	// Output:
	// acme 0
	// globex 1
	// initech 2
	// umbrella 3
	// 6 jobs wait, most of them for umbrella
}

// Find the jobs that have failed, check what a retry would do, and retry them.
func ExampleNewInspector() {
	ctx := management.WithActor(context.Background(), "bob")
	q, err := queue.NewLocalLimitedSizeSerializable(1, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	for id, to := range map[string]string{"first": "ann", "second": "nobody"} {
		_, err = brokenMail.Put(ctx, q, to, job.ID(id))
		must(err)
	}
	amboy.Wait(ctx, q)

	i, err := management.NewInspector(q)
	must(err)
	failed := management.JobFilter{States: []amboy.JobState{amboy.StateFailed}}
	page, err := i.FindJobs(ctx, failed, management.PageRequest{})
	must(err)
	for _, j := range page.Jobs {
		fmt.Println(j.ID, j.Type, j.State, j.Error)
	}
	details, err := i.Job(ctx, page.Jobs[0].Queue, page.Jobs[0].ID)
	must(err)
	fmt.Println("arguments:", string(details.Args), "actions:", details.Actions)

	retry := management.ActRequest{Action: management.Action{Kind: management.Retry}, Filter: failed, Limit: 100, DryRun: true}
	would, err := i.Act(ctx, retry)
	must(err)
	retry.DryRun = false
	did, err := i.Act(ctx, retry)
	must(err)
	fmt.Println("would retry", would.Done, "and did", did.Done)

	audit, err := i.Audit(ctx, management.AuditFilter{}, management.PageRequest{})
	must(err)
	fmt.Println(audit.Entries[0].Actor, audit.Entries[0].What, audit.Entries[0].Done)
	// Output:
	// second broken mail failed no such address
	// arguments: "nobody" actions: [retry delete]
	// would retry 1 and did 1
	// bob retry 1
}

// Find out what is wrong with a store. Here, a job waits, and no process runs.
func ExampleNewStoreInspector() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "mail", NumWorkers: 1})
	must(err)
	defer q.Close(ctx)
	_, err = brokenMail.Put(ctx, q, "ann") // but the queue is not started
	must(err)

	inspector, err := management.NewStoreInspector(store) // the store of a driver, without a queue
	must(err)
	diagnosis, err := inspector.(management.Diagnostician).Diagnose(ctx)
	must(err)
	for _, f := range diagnosis.Findings {
		fmt.Println(f.Severity, f.Kind)
		fmt.Println(f.Detail)
		fmt.Println(f.Command)
	}
	// Output:
	// critical no-process
	// No live process has a started queue: 1 job is ready.
	// amboy processes
}

// Group failed jobs by their errors, and retry one group.
func ExampleInspector_errorGroups() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	for n := range 3 {
		_, err = brokenMail.Put(ctx, q, fmt.Sprint("user ", n), job.ID(fmt.Sprint("mail-", n)))
		must(err)
	}
	amboy.Wait(ctx, q)

	i, err := management.NewInspector(q)
	must(err)
	failed := management.JobFilter{States: []amboy.JobState{amboy.StateFailed}}
	groups, err := i.ErrorGroups(ctx, management.ErrorGroupRequest{Filter: failed})
	must(err)
	for _, group := range groups.Groups {
		fmt.Println(group.Jobs, group.Message, group.Types, group.Sample.ID)
	}
	failed.ErrorGroup = groups.Groups[0].Message
	retry := management.ActRequest{Action: management.Action{Kind: management.Retry}, Filter: failed, Limit: 100}
	did, err := i.Act(ctx, retry)
	must(err)
	fmt.Println("retried", did.Done)
	// Output:
	// 3 no such address [broken mail] mail-2
	// retried 3
}

// Count the jobs in each state.
func ExampleInspector_countStates() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	for _, to := range []string{"ann", "bob", "cid"} {
		_, err = brokenMail.Put(ctx, q, to)
		must(err)
	}
	amboy.Wait(ctx, q)

	i, err := management.NewInspector(q)
	must(err)
	counts, err := i.CountStates(ctx, management.StateCountRequest{Within: 100 * time.Millisecond})
	must(err)
	for _, c := range counts {
		if c.Count.Count > 0 {
			fmt.Println(c.State, c.Count.Count)
		}
	}
	// Output:
	// succeeded 1
	// failed 2
}

// Correct the arguments of a job before it starts.
func ExampleInspector_editJob() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	_, err = brokenMail.Put(ctx, q, "nobody", job.ID("mail"), job.In(time.Hour))
	must(err)

	i, err := management.NewInspector(q)
	must(err)
	queues, err := i.Queues(ctx)
	must(err)
	read, err := i.Job(ctx, queues[0].Name, "mail")
	must(err)
	edit := management.JobEdit{Args: json.RawMessage(`"ann"`), Due: new(time.Now()), Revision: read.Revision, DryRun: true}
	preview, err := i.EditJob(ctx, read.Queue, read.ID, edit)
	must(err)
	fmt.Println("args:", string(preview.Changes[0].From), "->", string(preview.Changes[0].To))
	edit.DryRun = false
	_, err = i.EditJob(ctx, read.Queue, read.ID, edit)
	must(err)
	amboy.Wait(ctx, q)
	_, err = i.EditJob(ctx, read.Queue, read.ID, edit)
	var refused *management.StateError
	fmt.Println(errors.As(err, &refused), refused.State, refused.Rule)
	// Output:
	// args: "nobody" -> "ann"
	// true succeeded requires a job that has not started
}

// List who has changed a queue.
func ExampleAuditFilter() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	i, err := management.NewInspector(q)
	must(err)
	for _, name := range []string{"ann", "bob"} {
		_, err = i.SetControl(management.WithActor(ctx, name), q.ID(), management.ControlChange{MaxRunning: new(2)})
		must(err)
	}
	audit, err := i.Audit(ctx, management.AuditFilter{Actors: []string{"ann"}, What: []string{"control"}}, management.PageRequest{})
	must(err)
	for _, e := range audit.Entries {
		fmt.Println(e.Actor, e.What, e.Detail)
	}
	// Output: ann control {"max_running":2}
}

// List the types of jobs that this process has registered.
func ExampleTypeLister() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	i, err := management.NewInspector(q)
	must(err)
	types, err := i.(management.TypeLister).JobTypes(ctx)
	must(err)
	for _, t := range types {
		if t.Type == brokenMail.Type().Name {
			fmt.Println(t.Type, t.Version, t.Create)
		}
	}
	// Output: broken mail 1 true
}

// Run a job although the one that it depends on has failed.
func ExampleAction_ignoreDependencies() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	first, err := brokenMail.Put(ctx, q, "nobody", job.ID("first"))
	must(err)
	_, err = brokenMail.Put(ctx, q, "ann", job.ID("second"), job.After(first))
	must(err)

	i, err := management.NewInspector(q)
	must(err)
	queues, err := i.Queues(ctx)
	must(err)
	name := queues[0].Name
	for _, ignore := range []bool{false, true} {
		amboy.Wait(ctx, q)
		_, err = i.ActOn(ctx, name, "second", management.Action{Kind: management.Retry, IgnoreDependencies: ignore})
		must(err)
		amboy.Wait(ctx, q)
		second, missing := i.Job(ctx, name, "second")
		must(missing)
		fmt.Println(second.State, second.Error)
	}
	// Output:
	// failed not run because jobs that it depends on did not succeed: ["first"]
	// succeeded
}

var remind = job.Define("remind", 1, func(_ context.Context, whom string) error {
	fmt.Println("reminding", whom)
	return nil
})

// A tenant stores a schedule while the service runs, and runs it once by hand.
func ExampleScheduleManager() {
	ctx := management.WithActor(context.Background(), "ann")
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	must(err)
	defer func() { must(group.Close(ctx)) }()
	q, err := group.Get(ctx, "acme")
	must(err)

	inspector, err := management.NewGroupInspector(group)
	must(err)
	runner, err := management.NewScheduleRunner(inspector)
	must(err)
	must(runner.Start(ctx))
	defer runner.Close(ctx) // before the group

	schedules := inspector.(management.ScheduleManager)
	s, err := schedules.CreateSchedule(ctx, "acme", "monday-reminder", management.ScheduleSpec{
		Cron:    "30 8 * * MON",
		Zone:    "Europe/Berlin",
		CatchUp: schedule.CatchUpNone, // drop missed ticks
		ScheduledJob: management.ScheduledJob{
			Type: remind.Type().Name,
			Args: json.RawMessage(`"Grace"`),
		},
	})
	must(err)
	fmt.Println(s.Next.Weekday(), s.Next.Format(time.TimeOnly))

	run, err := schedules.TriggerSchedule(ctx, "acme", "monday-reminder", "")
	must(err)
	must(remind.Wait(ctx, q, run.ID))
	s, err = schedules.PauseSchedule(ctx, "acme", "monday-reminder", true)
	must(err)
	fmt.Println(s.Last.JobID == run.ID, s.Paused)
	// Output:
	// Monday 08:30:00
	// reminding Grace
	// true true
}

// Count the jobs of a queue, list some, and mark those complete that should not run.
func ExampleNewQueueManager() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	for _, id := range []string{"report.2026-11-01", "report.2026-11-02"} {
		_, err = remind.Put(ctx, q, "ann", job.ID(id), job.In(time.Hour))
		must(err)
	}
	_, err = brokenMail.Put(ctx, q, "ann", job.ID("mail"), job.In(time.Hour))
	must(err)

	m := management.NewQueueManager(q)
	counts, err := m.JobStatus(ctx, management.Pending)
	must(err)
	fmt.Println(counts)
	ids, err := m.JobIDsByState(ctx, remind.Type().Name, management.Pending)
	must(err)
	fmt.Println(ids)

	must(m.CompleteJob(ctx, "mail"))
	must(m.CompleteJobsByPattern(ctx, management.Pending, `report\.2026-11-.*`))
	fmt.Println(q.Stats(ctx))
	// Output:
	// [{broken mail  1} {remind  2}]
	// [{report.2026-11-01 } {report.2026-11-02 }]
	// running='0', completed='3', retrying='0', pending='0', blocked='0', total='3'
}

// An InvalidArgumentError states what is allowed.
func ExampleInvalidArgumentError() {
	q := queue.NewLocalLimitedSize(1, 10)
	_, err := management.NewQueueManager(q).JobStatus(context.Background(), "waiting")
	var argument *management.InvalidArgumentError
	if errors.As(err, &argument) {
		fmt.Println(argument.Field)
		fmt.Println(argument.Value)
		fmt.Println(argument.Rule)
	}
	// Output:
	// filter
	// waiting
	// must be one of ["pending" "in-progress" "stale" "completed" "retrying" "stale-retrying" "all"]
}

// Inspect the queues of all tenants.
func ExampleNewGroupInspector() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	must(err)
	defer func() { must(group.Close(ctx)) }()
	q, err := group.Get(ctx, "acme")
	must(err)
	_, err = remind.Put(ctx, q, "ann", job.In(time.Hour))
	must(err)

	inspector, err := management.NewGroupInspector(group)
	must(err)
	acme, err := inspector.Queue(ctx, "acme")
	must(err)
	fmt.Println(acme.Name, acme.Counts.Pending)
	// Output: acme 1
}

// Look after the jobs in a MongoDB without opening a queue.
func ExampleNewDBInspector() {
	ctx := context.Background()
	server, err := mongotest.New(mongotest.Options{}) // a stand-in of MongoDB
	must(err)
	defer server.Close()
	mongoDB := queue.MongoDBOptions{URI: server.URI(), DB: "shop", Collection: "jobs"}
	q, err := queue.NewMongoDBQueue(ctx, queue.MongoDBQueueOptions{DB: &mongoDB, NumWorkers: new(1)})
	must(err)
	defer q.Close(ctx)
	_, err = remind.Put(ctx, q, "ann", job.ID("one"))
	must(err)

	inspector, err := management.NewDBInspector(ctx, management.DBQueueManagerOptions{Options: mongoDB})
	must(err)
	defer func() { must(inspector.(interface{ Close(context.Context) error }).Close(ctx)) }()
	page, err := inspector.FindJobs(ctx, management.JobFilter{}, management.PageRequest{})
	must(err)
	fmt.Println(page.Jobs[0].ID, page.Jobs[0].State)
	// Output: one pending
}

// The actor of an action is recorded with it.
func ExampleWithActor() {
	ctx := management.WithActor(context.Background(), "ann")
	fmt.Println(management.ActorOf(ctx))
	// Output: ann
}

// Read the arguments of an encrypted job, in a process that has the key.
func ExampleWithReveal() {
	ctx := context.Background()
	secret := bytes.Repeat([]byte("s"), codec.KeyBytes) // read it from a secret store
	encrypting, err := codec.NewAESGCM(codec.Key{ID: "2026-03", Secret: secret})
	must(err)
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1, Codec: encrypting})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	_, err = remind.Put(ctx, q, "ann", job.ID("one"), job.In(time.Hour))
	must(err)

	i, err := management.NewInspector(q)
	must(err)
	hidden, err := i.Job(ctx, "", "one")
	must(err)
	shown, err := i.Job(management.WithReveal(ctx), "", "one")
	must(err)
	fmt.Println(hidden.ArgsHidden, string(shown.Args))
	// Output: encrypted "ann"
}

// An action is refused if the state of the job does not allow it.
func ExampleStateError() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 100)
	must(err)
	defer q.Close(ctx)
	_, err = remind.Put(ctx, q, "ann", job.ID("one"))
	must(err)

	i, err := management.NewInspector(q)
	must(err)
	_, err = i.ActOn(ctx, "", "one", management.Action{Kind: management.Delete})
	var refused *management.StateError
	fmt.Println(errors.As(err, &refused), refused.State, refused.Rule)
	// Output: true pending requires a job that has ended; cancel it first
}
