package queue_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
)

// These tests count the commands that queues send. They are the limits for the MongoDB
// driver, and hold on any server.

// onMongoDB returns a queue on a deployment, with its own client, as in another process.
func onMongoDB(t *testing.T, d *mongotest.Deployment, workers int, amend func(*queue.MongoDBOptions)) amboy.RetryableQueue {
	t.Helper()
	opts := queue.MongoDBOptions{
		Client: d.Connect(), DB: d.Database(), Collection: "queue", CheckWaitUntil: true, CheckDispatchBy: true,
	}
	if amend != nil {
		amend(&opts)
	}
	q, err := queue.NewMongoDBQueue(t.Context(), queue.MongoDBQueueOptions{DB: &opts, NumWorkers: &workers})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(ended()) })
	return q
}

func startMongoDB(t *testing.T, d *mongotest.Deployment, workers int, amend func(*queue.MongoDBOptions)) amboy.RetryableQueue {
	t.Helper()
	q := onMongoDB(t, d, workers, amend)
	require.NoError(t, q.Start(t.Context()))
	return q
}

// commandLog records the commands of a client.
type commandLog struct {
	mu       sync.Mutex
	commands []bson.Raw
}

// connect returns a client whose commands are recorded until the test ends.
func (l *commandLog) connect(t *testing.T, d *mongotest.Deployment) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(t.Context(), d.ClientOptions().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, started *event.CommandStartedEvent) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.commands = append(l.commands, slices.Clone(started.Command))
		},
	}))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	return client
}

// reset removes the recorded commands.
func (l *commandLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commands = nil
}

// named returns the recorded commands with a name.
func (l *commandLog) named(name string) (found []bson.Raw) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, command := range l.commands {
		if elements, err := command.Elements(); err == nil && len(elements) > 0 && elements[0].Key() == name {
			found = append(found, command)
		}
	}
	return found
}

// runsOf returns n jobs that run a function.
func runsOf(t *testing.T, n int, prefix string, run func(context.Context, *funcJob)) []amboy.Job {
	t.Helper()
	first := newJob(t, "", run)
	jobs := make([]amboy.Job, n)
	for i := range jobs {
		j := newFuncJob()
		j.SetID(fmt.Sprint(prefix, i))
		j.Key = first.Key
		jobs[i] = j
	}
	return jobs
}

// countdown returns a function and a channel that is closed when the function was called
// n times.
func countdown(n int) (run func(context.Context, *funcJob), done <-chan struct{}) {
	all := make(chan struct{})
	var ran atomic.Int64
	return func(context.Context, *funcJob) {
		if ran.Add(1) == int64(n) {
			close(all)
		}
	}, all
}

// full makes the tests count with as many jobs and tenants as the limits name. By default
// they use fewer, each of which costs at least as much.
var full = flag.Bool("full", false, "count the commands of MongoDB with as many jobs and tenants as their bars have")

// fullOr returns number if the flag is set, and short otherwise.
func fullOr(number, short int) int {
	if *full {
		return number
	}
	return short
}

// The time of the stand-in is the test's: what a process sends in a slow drain, such as surveys, is no cost of
// its jobs.
func TestMongoDBCommandsOfADrain(t *testing.T) {
	if os.Getenv(mongotest.URIVariable) != "" {
		commandsOfADrain(t, mongotest.Open(t))
		return
	}
	synctest.Test(t, func(t *testing.T) { commandsOfADrain(t, distant(t)) })
}

func commandsOfADrain(t *testing.T, d *mongotest.Deployment) {
	t.Helper()
	const atOnce, workers, most = 1000, 64, 0.15
	jobs := fullOr(10_000, 1000)
	run, done := countdown(jobs)
	all := runsOf(t, jobs, "job", run)
	q := startMongoDB(t, d, workers, nil)
	d.Commands().Reset()
	for i := 0; i < jobs; i += atOnce {
		require.NoError(t, q.PutMany(t.Context(), all[i:i+atOnce]))
	}
	<-done
	require.True(t, amboy.Wait(within(t), q))
	each := float64(d.Commands().Total()) / float64(jobs)
	t.Logf("%.3f commands a job: %s", each, d.Commands())
	assert.LessOrEqual(t, each, most)
}

// TestADrainWasAskedAfterEachBatchWhetherItIsOver counts how often a caller of amboy.Wait makes a queue ask,
// which is of no use while the process claims more.
func TestADrainWasAskedAfterEachBatchWhetherItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, workers, most = 400, 8, 5
		d := distant(t)
		var log commandLog
		q := onMongoDB(t, d, workers, func(opts *queue.MongoDBOptions) { opts.Client = log.connect(t, d) })
		run, done := countdown(jobs)
		require.NoError(t, q.PutMany(t.Context(), runsOf(t, jobs, "job", run)))
		log.reset()
		require.NoError(t, q.Start(t.Context()))
		require.True(t, amboy.Wait(within(t), q))
		<-done
		asked := 0
		for _, command := range log.named("aggregate") {
			if limit, ok := command.Lookup("pipeline", "1", "$limit").AsInt64OK(); ok && limit == 1 && len(command.Lookup("pipeline", "0", "$match", "line.in").Value) == 0 {
				asked++
			}
		}
		t.Logf("asked %d times", asked)
		assert.LessOrEqual(t, asked, most)
	})
}

// notesOfQueue is the collection in which processes publish notes: their activity every
// ten seconds while they do something, and that they are alive once a minute.
// TestMongoDBCommandsOfNotes limits these commands; the other tests leave them out.
const notesOfQueue = "queue.jobs.notes"

// TestMongoDBCommandsOfNotes has a process that runs a job every second, and a process
// that runs none.
func TestMongoDBCommandsOfNotes(t *testing.T) {
	for name, test := range map[string]struct {
		jobs bool
		most int // a minute
	}{
		"idle": {false, 2},
		"busy": {true, 2 + 6 + 5}, // five for the backlog, which one process records for all
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := mongotest.Open(t, mongotest.InMemory())
				q := startMongoDB(t, d, 8, nil)
				pass(time.Minute + time.Second)
				for minute := range 3 {
					d.Commands().Reset()
					for second := range 60 {
						if test.jobs {
							run, done := countdown(1)
							put(t, q, runsOf(t, 1, fmt.Sprint("job", minute, ".", second, "."), run)...)
							<-done
						}
						pass(time.Second)
					}
					assert.LessOrEqual(t, d.Commands().On(notesOfQueue), test.most, d.Commands())
				}
				t.Log(d.Commands())
			})
		})
	}
}

// TestMongoDBCommandsOfOneJob uses an otherwise idle queue.
func TestMongoDBCommandsOfOneJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, most = 10, 4
		const sample = 1 // of the backlog, once a minute
		const survey = 3 // with the removal of ended jobs that follows it; at most every 24 s
		d := mongotest.Open(t, mongotest.InMemory())
		q := startMongoDB(t, d, 8, nil)
		pass(time.Minute + time.Second) // what an idle queue does is counted below
		sent := 0
		for i := range jobs {
			pass(time.Second)
			d.Commands().Reset()
			run, done := countdown(1)
			put(t, q, runsOf(t, 1, fmt.Sprint("job", i, "."), run)...)
			<-done
			pass(time.Second)
			now := d.Commands().Total() - d.Commands().On(notesOfQueue)
			assert.LessOrEqual(t, now, most+survey+sample, d.Commands())
			sent += now
			t.Log(d.Commands())
		}
		assert.LessOrEqual(t, sent, jobs*most+survey+sample, "with one survey in that time")
	})
}

// TestMongoDBCommandsOfOneJobBesideIdleTenants runs a job of one tenant while the queues
// of many other tenants are open.
func TestMongoDBCommandsOfOneJobBesideIdleTenants(t *testing.T) {
	tenants := fullOr(10_000, 200)
	synctest.Test(t, func(t *testing.T) {
		const jobs, most = 10, 4
		d := mongotest.Open(t, mongotest.InMemory())
		group := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) { o.BackgroundCreateFrequency = 24 * time.Hour })
		for _, name := range ids("tenant", tenants) {
			open(t, group, name)
		}
		q, err := group.Get(t.Context(), "busy", &queue.MongoDBQueueOptions{NumWorkers: new(8)})
		require.NoError(t, err)
		pass(time.Minute + time.Second)
		sent := 0
		for i := range jobs {
			d.Commands().Reset()
			run, done := countdown(1)
			put(t, q, runsOf(t, 1, fmt.Sprint("job", i, "."), run)...)
			<-done
			pass(time.Second)
			sent += d.Commands().Total() - d.Commands().On("tenants.group.notes")
		}
		t.Logf("%.1f commands a job; of the last: %s", float64(sent)/jobs, d.Commands())
		assert.LessOrEqual(t, sent, jobs*most+2, "with two safety polls in that time")
	})
}

// TestMongoDBJobOfAnotherProcess puts jobs that an idle process runs, also after ten
// minutes without a job.
func TestMongoDBJobOfAnotherProcess(t *testing.T) {
	const interval = 3 * time.Second
	for name, test := range map[string]struct {
		needs  []mongotest.Option
		within time.Duration
	}{
		"by the change stream": {[]mongotest.Option{mongotest.InMemory(), mongotest.ReplicaSet()}, 10 * time.Millisecond}, // the pause after a conflict with the other process
		"by polling":           {[]mongotest.Option{mongotest.InMemory(), mongotest.Standalone()}, interval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := mongotest.Open(t, test.needs...)
				amend := func(o *queue.MongoDBOptions) { o.WaitInterval = interval }
				startMongoDB(t, d, 1, amend)
				other := onMongoDB(t, d, 1, amend)
				for i, idle := range []time.Duration{time.Second, time.Minute, 10 * time.Minute} {
					pass(idle)
					run, done := countdown(1)
					begin := time.Now()
					put(t, other, runsOf(t, 1, fmt.Sprint("job", i, "."), run)...)
					<-done
					assert.LessOrEqual(t, time.Since(begin), test.within, "after %s", idle)
				}
			})
		})
	}
}

// TestMongoDBCommandsOfAHeartbeat has only running jobs. It leaves out the change stream,
// the scan for retries once a minute, and the notes: their number does not depend on the
// number of jobs.
func TestMongoDBCommandsOfAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const heartbeats, most = 8, 2
		jobs := fullOr(500, 100)
		const heartbeat = 4 * time.Second
		d := mongotest.Open(t, mongotest.InMemory())
		q, err := queue.NewMongoDBQueue(t.Context(), queue.MongoDBQueueOptions{
			DB:         &queue.MongoDBOptions{Client: d.Connect(), DB: d.Database(), Collection: "queue", LockTimeout: 4 * heartbeat},
			NumWorkers: &jobs,
			Retryable:  &queue.RetryableQueueOptions{StaleRetryingMonitorInterval: 24 * time.Hour},
		})
		require.NoError(t, err)
		defer q.Close(ended())
		require.NoError(t, q.Start(t.Context()))
		release := make(chan struct{})
		require.NoError(t, q.PutMany(t.Context(), runsOf(t, jobs, "job", func(context.Context, *funcJob) { <-release })))
		pass(time.Minute)
		require.Equal(t, jobs, q.Stats(t.Context()).Running)

		// Once a minute a process sweeps while all of its workers are busy, and counts jobs for the
		// backlog; what else that sends is about notes. Both may come in one heartbeat.
		const sweep, sample = 4, 1
		listened, sent := 0, 0
		for range heartbeats {
			d.Commands().Reset()
			pass(heartbeat)
			listens := d.Commands().Named("getMore")
			now := d.Commands().Total() - listens - d.Commands().On(notesOfQueue)
			assert.LessOrEqual(t, now, most+sweep+sample, d.Commands())
			sent += now
			listened += listens
		}
		assert.LessOrEqual(t, sent, heartbeats*most+sweep+sample)
		t.Logf("the last heartbeat: %s; %d getMores in %d heartbeats", d.Commands(), listened, heartbeats)
		assert.Equal(t, jobs, q.Stats(t.Context()).Running, "no lease was lost")
		close(release)
		require.True(t, amboy.Wait(day(t), q))
	})
}

// TestMongoDBCommandsOfIdleTenants keeps many idle queues open for a while.
func TestMongoDBCommandsOfIdleTenants(t *testing.T) {
	const perSecond, observed = 3.0, time.Minute
	tenants := fullOr(1000, 200)
	for name, needs := range map[string]mongotest.Option{"replica set": mongotest.ReplicaSet(), "standalone": mongotest.Standalone()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := mongotest.Open(t, mongotest.InMemory(), needs)
				group := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) {
					o.TTL, o.PruneFrequency = 24*time.Hour, time.Hour
					o.BackgroundCreateFrequency = 10 * time.Second
				})
				for _, name := range ids("tenant", tenants) {
					open(t, group, name)
				}
				pass(time.Minute)
				d.Commands().Reset()
				pass(observed)
				each := float64(d.Commands().Total()) / observed.Seconds()
				t.Logf("%.3f commands a second: %s", each, d.Commands())
				assert.LessOrEqual(t, each, perSecond)
			})
		})
	}
}

// TestMongoDBCommandsOfOneScope runs many jobs of one scope on three processes, and then
// other jobs while jobs of that scope wait.
func TestMongoDBCommandsOfOneScope(t *testing.T) { synctest.Test(t, commandsOfOneScope) }

func commandsOfOneScope(t *testing.T) {
	const others, workers, processes, most = 100, 64, 3, 8.0
	jobs := fullOr(1000, 100)
	d := distant(t)
	var holders atomic.Int64
	run, done := countdown(jobs)
	scoped := runsOf(t, jobs, "scoped", func(ctx context.Context, j *funcJob) {
		if n := holders.Add(1); n > 1 {
			t.Errorf("%d jobs hold the scope", n)
		}
		holders.Add(-1)
		run(ctx, j)
	})
	for _, j := range scoped {
		j.SetScopes([]string{"one"})
	}
	var queues []amboy.RetryableQueue
	for range processes {
		queues = append(queues, onMongoDB(t, d, workers, nil))
	}
	require.NoError(t, queues[0].PutMany(t.Context(), scoped))
	d.Commands().Reset()
	var starting sync.WaitGroup
	for _, q := range queues {
		starting.Go(func() { assert.NoError(t, q.Start(t.Context())) })
	}
	starting.Wait()
	<-done
	each := float64(d.Commands().Total()) / float64(jobs)
	t.Logf("%.2f commands a job: %s", each, d.Commands())
	assert.LessOrEqual(t, each, most)
	require.True(t, amboy.Wait(day(t), queues[0]))

	// Jobs of other scopes run while these jobs wait.
	run, done = countdown(workers)
	blocked := runsOf(t, workers, "blocked", run)
	for _, j := range blocked {
		j.SetScopes([]string{"one"})
	}
	blocker, started, release := holder(t, "blocker")
	blocker.SetScopes([]string{"one"})
	put(t, queues[0], blocker)
	<-started
	require.NoError(t, queues[0].PutMany(t.Context(), blocked))
	free, freeDone := countdown(others)
	for i, j := range runsOf(t, others, "free", free) {
		j.SetScopes([]string{fmt.Sprint("own", i)})
		put(t, queues[i%processes], j)
	}
	<-freeDone // while the scope is held
	release()
	<-done
	require.True(t, amboy.Wait(day(t), queues[0]))
}
