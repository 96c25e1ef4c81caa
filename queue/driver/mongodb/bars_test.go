package mongodb_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
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
	"go.mongodb.org/mongo-driver/mongo/readconcern"
	"go.mongodb.org/mongo-driver/mongo/readpref"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

// openAll opens drivers, each with a client of its own as in another process, which have claimed
// once.
func openAll(t *testing.T, s *mongotest.Deployment, n int) []*mongodb.Driver {
	t.Helper()
	drivers := make([]*mongodb.Driver, n)
	for i := range drivers {
		drivers[i] = openOn(t, s)
		claimAll(t, drivers[i], request("owner", 1, "none"))
	}
	return drivers
}

// perSecond returns the commands that are sent in a second, on average of a minute.
func perSecond(s *mongotest.Deployment) float64 {
	s.Commands().Reset()
	pass(time.Minute)
	return float64(s.Commands().Total()) / 60
}

// Each idle process swept every 5 s while any job waited for a scope, and read each of the scopes.
func TestScopesWithWaitersCostEachIdleProcessSweeps(t *testing.T) {
	const processes, scopes, most = 20, 1000, 1.0
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		drivers := openAll(t, s, processes)
		pass(time.Minute)
		idle := perSecond(s)
		var records []*driver.Record
		for i := range scopes {
			wants := func(r *driver.Record) { r.RequiredScopes = []string{fmt.Sprint("s", i)} }
			records = append(records, plainRecord(fmt.Sprint("holder", i), wants), plainRecord(fmt.Sprint("waiter", i), wants))
		}
		putAll(t, drivers[0], records...)
		running := 0
		for range 3 {
			running += len(claimAll(t, drivers[0], request("owner", scopes-running, "queue")))
		}
		require.Equal(t, scopes, running)
		pass(time.Minute)
		waiting := perSecond(s)
		t.Logf("%.2f commands a second in all, %.2f without waiters: %s", waiting, idle, s.Commands())
		assert.LessOrEqual(t, waiting-idle, most)
	})
}

// The process that sweeps dies while another one's work is undone.
func TestASweepOfADeadProcessIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		drivers := openAll(t, s, 3)
		wants := func(r *driver.Record) { r.RequiredScopes = []string{"s"} }
		putAll(t, drivers[0], plainRecord("holder", wants), plainRecord("waiter", wants))
		require.Len(t, claimAll(t, drivers[0], request("owner", 2, "queue")), 1)
		pass(20 * time.Second)
		for _, d := range drivers[:2] { // one of them or the third sweeps
			require.NoError(t, d.Close(t.Context()))
		}
		_, err := s.Collection("work.group").DeleteOne(t.Context(), bson.M{"_id": "queue.holder"})
		require.NoError(t, err)
		pass(45 * time.Second)
		assert.Len(t, claimAll(t, drivers[2], request("owner", 1, "queue")), 1)
	})
}

// Each driver had two change streams, which occupied two connections.
func TestChangeStreamsOfDriversExhaustedThePool(t *testing.T) {
	s := mongotest.Open(t, mongotest.StandIn())
	client, err := mongo.Connect(t.Context(), s.ClientOptions().SetMaxPoolSize(2))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(t.Context())) })
	for i := range 10 {
		d := openOn(t, s, func(o *mongodb.Options) { o.Client, o.Collection = client, fmt.Sprint("work", i) })
		claimAll(t, d, request("owner", 1, "queue"))
		putAll(t, d, plainRecord("job"))
		require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
	}
}

// A process that only inserts has no change stream and does not sweep.
func TestAProcessThatOnlyInsertsHadChangeStreamsAndSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		putAll(t, d, plainRecord("job"))
		pass(20 * time.Second)
		s.Commands().Reset()
		pass(10 * time.Minute)
		assert.Zero(t, s.Commands().Total(), s.Commands())
		putAll(t, d, plainRecord("another"))
	})
}

// The sort of the documents that want a scope kept all of their bodies, and so failed with many
// large ones.
func TestTheSortOfLargeJobsThatWantAScopeFailed(t *testing.T) {
	s := newStoreOf(t, mongotest.Options{SortMemory: 1 << 20})
	d := s.open()
	wants := func(r *driver.Record) {
		r.RequiredScopes = []string{"s"}
		r.Job = registry.NewSealedBody(make([]byte, 20_000))
	}
	var records []*driver.Record
	for i := range 100 {
		records = append(records, plainRecord(fmt.Sprint(i), wants))
	}
	putAll(t, d, records...)
	// As if many processes had put them at the same time, all are ready.
	jobs := s.jobs(true)
	_, err := jobs.UpdateMany(t.Context(), bson.M{"line.in": "scope"}, bson.M{"$set": bson.M{"line.in": "ready"}, "$unset": bson.M{"line.scope": ""}})
	require.NoError(t, err)
	require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
	n, err := jobs.CountDocuments(t.Context(), bson.M{"line.in": "scope"})
	require.NoError(t, err)
	assert.EqualValues(t, 99, n, "the others wait for the scope")
}

// A claim that chooses from many candidates read all of their bodies.
func TestAClaimReadTheBodiesOfAllCandidates(t *testing.T) {
	s := mongotest.Open(t, mongotest.StandIn())
	var mutex sync.Mutex
	size := 0
	client, err := mongo.Connect(t.Context(), s.ClientOptions().SetMonitor(&event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName == "aggregate" || e.CommandName == "find" {
				mutex.Lock()
				defer mutex.Unlock()
				size = max(size, len(e.Reply))
			}
		},
	}))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	d := openOn(t, s, func(o *mongodb.Options) { o.Client, o.ClaimWindow = client, 300 })
	var records []*driver.Record
	for i := range 300 {
		records = append(records, plainRecord(fmt.Sprint(i), func(r *driver.Record) { r.Job = registry.NewSealedBody(make([]byte, 10_000)) }))
	}
	putAll(t, d, records...)
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	assert.Len(t, running[0].Job.Raw(), 10_000)
	mutex.Lock()
	defer mutex.Unlock()
	assert.Less(t, size, 300*1000)
}

// heard counts the batches of events that drivers receive.
func heard(drivers []*mongodb.Driver) (count func() int) {
	var n atomic.Int64
	for _, d := range drivers {
		d.SubscribeToClaimable(func(driver.Change) { n.Add(1) })
	}
	return func() int {
		synctest.Wait()
		return int(n.Swap(0))
	}
}

// Each end woke every process.
func TestEachEndWokeEveryProcess(t *testing.T) {
	const processes = 20
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		drivers := openAll(t, s, processes)
		count := heard(drivers[1:])
		putAll(t, drivers[0], plainRecord("job"))
		assert.Equal(t, processes-1, count(), "all are idle")
		running := claimAll(t, drivers[0], request("owner", 1, "queue"))
		pass(time.Minute)
		count()
		endAll(t, drivers[0], running...)
		assert.Zero(t, count(), "nobody waits for the end")
		var ends atomic.Int64
		defer drivers[1].Subscribe(func(driver.Change) { ends.Add(1) })()
		pass(time.Second)
		putAll(t, drivers[0], plainRecord("other"))
		running = claimAll(t, drivers[0], request("owner", 1, "queue"))
		pass(time.Second)
		ends.Store(0)
		endAll(t, drivers[0], running...)
		pass(time.Second)
		assert.EqualValues(t, 1, ends.Load())
	})
}

// A process heard of each new job although all of its workers were busy.
func TestEachPutWokeBusyProcesses(t *testing.T) {
	const processes = 20
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		drivers := make([]*mongodb.Driver, processes)
		for i := range drivers {
			drivers[i] = openOn(t, s)
			putAll(t, drivers[i], plainRecord(fmt.Sprint("long", i)))
			require.Len(t, claimAll(t, drivers[i], request("owner", 1, "queue")), 1)
		}
		require.Empty(t, claimAll(t, drivers[1], request("owner", 1, "queue")), "one is idle")
		pass(time.Minute)
		count := heard(drivers[1:])
		putAll(t, drivers[0], plainRecord("job"))
		assert.Equal(t, 1, count())
		require.Len(t, claimAll(t, drivers[0], request("owner", 1, "queue")), 1)
		require.Empty(t, claimAll(t, drivers[2], request("owner", 1, "queue")), "now it is idle")
		pass(time.Second)
		count()
		putAll(t, drivers[0], plainRecord("another"))
		assert.Equal(t, 2, count())
		// A job that is put before the change stream shows such changes again is heard of too.
		require.Len(t, claimAll(t, drivers[0], request("owner", 1, "queue")), 1)
		require.Empty(t, claimAll(t, drivers[3], request("owner", 1, "queue")))
		count()
		putAll(t, drivers[4], plainRecord("third"))
		require.Len(t, claimAll(t, drivers[3], request("owner", 1, "queue")), 1)
		pass(time.Minute)
		alone := heard(drivers[3:4])
		require.Empty(t, claimAll(t, drivers[3], request("owner", 1, "queue")))
		putAll(t, drivers[4], plainRecord("fourth"))
		assert.NotZero(t, alone())
	})
}

// Each Put, claim and end of a job with a scope read all ready jobs that want it, again and again
// if they were 1,000, although the scope had room for them.
func TestJobsOfAScopeWithRoomWereReadAThousandTimes(t *testing.T) {
	for name, wants := range map[string]string{"no holder": "scope", "a limit": amboy.LimitScope("scope", 100)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				var returned atomic.Int64
				client, err := mongo.Connect(t.Context(), s.ClientOptions().SetMonitor(&event.CommandMonitor{
					Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
						returned.Add(int64(strings.Count(e.Reply.String(), `"rival"`)))
					},
				}))
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
				d := openOn(t, s, func(o *mongodb.Options) { o.Client = client })
				needs := func(r *driver.Record) { r.RequiredScopes = []string{wants} }
				records := plainRecords(1200)
				for _, r := range records {
					needs(r)
				}
				check := func(what string, call func()) {
					t.Helper()
					s.Server().ResetCosts()
					returned.Store(0)
					call()
					assert.LessOrEqual(t, s.Server().Costs().Commands["aggregate"], int64(10), what)
					assert.LessOrEqual(t, returned.Load(), int64(100), what)
				}
				putAll(t, d, records...)
				makeReady(t, s)
				check("a Put", func() { putAll(t, d, plainRecord("one", needs)) })
				check("a Put of two", func() { putAll(t, d, plainRecord("first", needs), plainRecord("second", needs)) })
				check("another Put", func() { putAll(t, d, plainRecord("other", needs)) })
				if wants == "scope" {
					return // a claim makes all others wait
				}
				var running []*driver.Record
				check("a claim", func() { running = claimAll(t, d, request("owner", 20, "queue")) })
				require.Len(t, running, 20)
				check("an end", func() { endAll(t, d, running[0]) })
			})
		})
	}
}

// makeReady makes jobs that wait for a scope ready, as if they had been put one by one.
func makeReady(t *testing.T, s *mongotest.Deployment) {
	t.Helper()
	_, err := s.Collection("work.group").UpdateMany(t.Context(), bson.M{"line.in": "scope"},
		bson.M{"$set": bson.M{"line.in": "ready"}, "$unset": bson.M{"line.scope": ""}})
	require.NoError(t, err)
}

// Of many ready jobs that come before a waiter a few are read, whatever else is arranged with them.
func TestAWaiterStaysBehindManyReadyJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		needs := func(id, scope string) *driver.Record {
			return plainRecord(id, func(r *driver.Record) { r.RequiredScopes = []string{scope} })
		}
		records := []*driver.Record{plainRecord("holder", takesScope)}
		for i := range 150 {
			records = append(records, needs(fmt.Sprint(i), "free"))
		}
		putAll(t, d, records...)
		makeReady(t, s)
		putAll(t, d, needs("first", "free"), needs("second", "free")) // one waits for the other
		waiting := func() int64 {
			n, err := s.Collection("work.group").CountDocuments(t.Context(), bson.M{"line.scope": "free"})
			require.NoError(t, err)
			return n
		}
		require.EqualValues(t, 1, waiting())
		putAll(t, d, plainRecord("blocked", wantsScope), needs("third", "free"))
		assert.EqualValues(t, 1, waiting())
	})
}

// A scope that is taken while many ready jobs want it makes all of them wait.
func TestManyJobsWaitForAScopeThatWasTaken(t *testing.T) {
	for name, wants := range map[string]string{"one holder": "scope", "a limit": amboy.LimitScope("scope", 3)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				d := openOn(t, s)
				records := plainRecords(2500)
				for _, r := range records {
					r.RequiredScopes = []string{wants}
				}
				putAll(t, d, records...)
				makeReady(t, s)
				running := claimAll(t, d, request("owner", 10, "queue"))
				count := func(in string) int {
					n, err := s.Collection("work.group").CountDocuments(t.Context(), bson.M{"line.in": in})
					require.NoError(t, err)
					return int(n)
				}
				assert.Zero(t, count("ready"))
				assert.Equal(t, len(records)-len(running), count("scope"))
				endAll(t, d, running[0])
				assert.Equal(t, 1, count("ready"))
				next := claimAll(t, d, request("owner", 10, "queue"))
				assert.Equal(t, []string{fmt.Sprint("queue.", len(running))}, names(next))
			})
		})
	}
}

// A claim read the expired jobs of all queues, also of those that no process claims from.
func TestAClaimReadTheExpiredJobsOfAllQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		expires := func(queue string) func(*driver.Record) {
			return func(r *driver.Record) {
				inQueue(queue)(r)
				r.TimeInfo.DispatchBy = time.Now().Add(time.Second)
			}
		}
		records := plainRecords(300)
		for _, r := range records {
			expires("old")(r)
		}
		putAll(t, d, append(records, plainRecord("job", expires("new")))...)
		pass(time.Minute)
		s.Server().ResetCosts()
		claimed := claimAll(t, d, request("owner", 10, "new", "newer"))
		assert.Equal(t, []string{"new.job"}, names(claimed))
		assert.LessOrEqual(t, s.Server().Costs().Examined.Documents, int64(10))
		assert.Len(t, claimAll(t, d, request("owner", 10, "old")), 300, "expired jobs need no worker")
	})
}

// A claim queried four times what is due or expires, now and next. A server paid more for that than for the
// jobs that were claimed.
func TestAClaimQueriedFourTimesWhatIsDueOrExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		var mutex sync.Mutex
		branches := 0 // of the aggregate that has most
		client := watched(t, s, &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "aggregate" {
				mutex.Lock()
				defer mutex.Unlock()
				branches = max(branches, 1+bytes.Count(e.Command, []byte("$unionWith")))
			}
		}})
		d := openOn(t, s, func(o *mongodb.Options) { o.Client, o.Grouped = client, false })
		inTotal := inQueue("")
		due := time.Now().Add(time.Minute)
		put := func(name string, change func(*driver.Record)) { putAll(t, d, plainRecord(name, inTotal, change)) }
		put("ready", func(*driver.Record) {})
		put("scheduled", func(r *driver.Record) { r.TimeInfo.WaitUntil = due })
		put("expiring", func(r *driver.Record) {
			r.TimeInfo.WaitUntil, r.TimeInfo.DispatchBy = due.Add(time.Hour), due.Add(time.Second)
		})
		claimed, err := d.Claim(t.Context(), request("owner", 2, ""))
		require.NoError(t, err)
		assert.Equal(t, []string{".ready"}, names(claimed.Records))
		assert.WithinDuration(t, due, claimed.Next, 0)
		mutex.Lock()
		assert.LessOrEqual(t, branches, 4)
		mutex.Unlock()

		pass(time.Minute)
		claimed, err = d.Claim(t.Context(), request("owner", 2, ""))
		require.NoError(t, err)
		assert.Equal(t, []string{".scheduled"}, names(claimed.Records))
		assert.WithinDuration(t, due.Add(time.Second), claimed.Next, time.Millisecond)
		pass(2 * time.Second)
		claimed, err = d.Claim(t.Context(), request("owner", 2, ""))
		require.NoError(t, err)
		assert.Equal(t, []string{".expiring"}, names(claimed.Records))
	})
}

// A process of an earlier version has built the indexes.
func TestExpiredJobsAreClaimedWithoutTheIndexOfTheirQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		openOn(t, s)
		_, err := s.Collection("work.group").Indexes().DropOne(t.Context(), "expires_in_queue")
		require.NoError(t, err)
		d := openOn(t, s, func(o *mongodb.Options) { o.SkipIndexes = true })
		putAll(t, d, plainRecord("job", func(r *driver.Record) { r.TimeInfo.DispatchBy = time.Now().Add(time.Second) }))
		pass(time.Minute)
		work, err := d.Work(t.Context(), time.Now())
		require.NoError(t, err)
		assert.Equal(t, []driver.QueueWork{{Queue: "queue", Ready: true, Expired: true}}, work.Queues)
		assert.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
	})
}

// A claim queried only the first 50 of the queues with jobs, although as many jobs of these ran as
// may, so that an idle process did not run the jobs of the others.
func TestQueuesAtTheirLimitHidTheJobsOfOthers(t *testing.T) {
	for name, stop := range map[string]driver.ControlChange{
		"full":   {MaxRunning: new(1)},
		"paused": {Paused: new(true)},
		"slow":   {Rate: &amboy.Rate{PerSecond: 0.001}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				d, other := openOn(t, s), openOn(t, s)
				in := func(queue, id string) *driver.Record {
					return plainRecord(id, func(r *driver.Record) { r.Group, r.Name = queue, driver.RecordName(queue, id, r.RetryInfo) })
				}
				var queues []string
				var records []*driver.Record
				for i := range 120 {
					queue := fmt.Sprint("full", i)
					_, err := d.Control(t.Context(), queue, stop)
					require.NoError(t, err)
					queues = append(queues, queue)
					records = append(records, in(queue, "a"), in(queue, "b"))
				}
				putAll(t, d, records...)
				claimAll(t, other, request("other", 1000, queues...)) // one of each, or none
				claimAll(t, d, request("owner", 1, "none"))           // which opens its change stream
				putAll(t, d, in("last", "job"))
				pass(10 * time.Second)
				s.Server().ResetCosts()
				claimed, err := d.Claim(t.Context(), request("owner", 10, append(queues, "last")...))
				require.NoError(t, err)
				assert.Equal(t, []string{"last.job"}, names(claimed.Records))
				if stop.Rate != nil {
					assert.Len(t, claimed.Waits, len(queues))
				}
				assert.LessOrEqual(t, s.Server().Costs().Sent(), int64(20), s.Server().Costs())
			})
		})
	}
}

// watched returns a client with a monitor of its commands.
func watched(t *testing.T, s *mongotest.Deployment, monitor *event.CommandMonitor) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(t.Context(), s.ClientOptions().SetMonitor(monitor))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	return client
}

// A process that was busy makes a claim that finds nothing. A job is put after its query, and the
// change stream continues after that before the process wants to hear of jobs again.
func TestAJobPutDuringTheClaimThatMadeAProcessIdleWasNotHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		other := openAll(t, s, 1)[0]
		var armed atomic.Bool
		client := watched(t, s, &event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName != "aggregate" || !strings.Contains(e.Reply.String(), `.work.group"`) || !armed.Swap(false) {
				return
			}
			putAll(t, other, plainRecord("late"))                                                    //nolint:contextcheck // It is another client's.
			_, err := other.Control(t.Context(), "another", driver.ControlChange{Paused: new(true)}) //nolint:contextcheck // The same. All hear of it.
			if err != nil {
				t.Error(err)
			}
			time.Sleep(500 * time.Millisecond) // not so long that the query is sent again
		}})
		d := openOn(t, s, func(o *mongodb.Options) { o.Client = client })
		putAll(t, other, plainRecord("long"))
		require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
		pass(time.Minute)
		armed.Store(true)
		count := heard([]*mongodb.Driver{d})
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
		require.False(t, armed.Load())
		pass(time.Second)
		assert.Equal(t, 2, count(), "of the control, and of what it may have missed")
	})
}

// A batch of events has a job of one collection and a control of another. While the control is
// read, an interest changes.
func TestAnEventBeforeAnInterruptionOfTheStreamWasNotHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		in := func(collection string, client *mongo.Client) func(o *mongodb.Options) {
			return func(o *mongodb.Options) { o.Collection, o.Client = collection, client }
		}
		var first *mongodb.Driver
		var armed atomic.Bool
		client := watched(t, s, &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if from, _ := e.Command.Lookup("find").StringValueOK(); from == "second.group.control" && armed.Swap(false) {
				first.Subscribe(func(driver.Change) {}) //nolint:contextcheck // It outlasts the command.
			}
		}})
		first = openOn(t, s, in("first", client))
		second := openOn(t, s, in("second", client))
		for _, d := range []*mongodb.Driver{first, second} {
			claimAll(t, d, request("owner", 1, "queue"))
		}
		far := s.Connect()
		otherFirst, otherSecond := openOn(t, s, in("first", far)), openOn(t, s, in("second", far))
		drain := func(drains bool) {
			_, err := otherSecond.Control(t.Context(), "queue", driver.ControlChange{Draining: &drains})
			require.NoError(t, err)
		}
		pass(time.Minute)
		drain(true)
		time.Sleep(5 * time.Millisecond) // the stream gathers further events for 10 ms
		count := heard([]*mongodb.Driver{first})
		armed.Store(true)
		putAll(t, otherFirst, plainRecord("job"))
		drain(false)
		pass(time.Second)
		require.False(t, armed.Load())
		assert.NotZero(t, count())
	})
}

// Each queue of which jobs were forgotten woke every process.
func TestForgettingJobsWokeEveryProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		drivers := openAll(t, s, 2)
		for range 2 { // the first time, documents with the counts are created
			putAll(t, drivers[0], plainRecord("job", func(r *driver.Record) { r.ForgetAt = time.Now() }))
			endAll(t, drivers[0], claimAll(t, drivers[0], request("owner", 1, "queue"))...)
			pass(time.Minute)
			count := heard(drivers[1:])
			forgotten, err := drivers[0].Forget(t.Context(), time.Now().Add(time.Hour), 10)
			require.NoError(t, err)
			require.Equal(t, 1, forgotten)
			pass(time.Second)
			assert.Zero(t, count())
		}
	})
}

// A process that only inserts leaves the members of the drain barrier after a while.
func TestTheEndOfAProducerWokeEveryProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		drivers := openAll(t, s, 1)
		putAll(t, openOn(t, s), plainRecord("job"))
		pass(time.Second)
		count := heard(drivers)
		pass(30 * time.Second)
		assert.Zero(t, count())
	})
}

// Servers refuse a change stream with a read concern other than majority, so that a process with
// another one in its URI polled for ever. Its reads and transactions had that read concern too. With a
// read preference in the URI all retries failed.
func TestTheReadConcernOfTheURIDisabledChangeStreams(t *testing.T) {
	for _, level := range []string{"local", "available", "snapshot", "linearizable"} {
		synctest.Test(t, func(t *testing.T) {
			s := mongotest.Open(t, mongotest.InMemory())
			opts := s.ClientOptions().SetReadConcern(&readconcern.ReadConcern{Level: level}).SetReadPreference(readpref.Secondary())
			client, err := mongo.Connect(t.Context(), opts)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
			s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
				got, has := c.Command.Lookup("readConcern", "level").StringValueOK()
				isStream := c.Command.Lookup("pipeline", "0", "$changeStream").Type != 0
				switch {
				case isStream:
					assert.Equal(t, "majority", got)
				case has && got != "snapshot": // which Stats asks for itself
					assert.Equal(t, "local", got, "%s", c.Command)
				}
				return mongotest.Served
			})
			d, other := openOn(t, s, func(o *mongodb.Options) { o.Client, o.PollInterval = client, time.Hour }), openOn(t, s)
			count := heard([]*mongodb.Driver{d})
			failed, next := awaitingRetry(t, d)
			require.NoError(t, d.Retry(t.Context(), failed, next))
			require.Len(t, claimAll(t, d, request("owner", 10, "queue")), 1)
			pass(time.Second)
			count()
			putAll(t, other, plainRecord("another"))
			pass(time.Second)
			assert.NotZero(t, count(), level)
		})
	}
}

// While all workers are busy, an engine claims only the jobs that have expired. The claim panicked if more than a
// few queues with such jobs also had others that were ready.
func TestAClaimOfOnlyTheExpiredJobsOfManyQueuesPanicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		var queues []string
		var records []*driver.Record
		for i := range 10 {
			queue := fmt.Sprint("queue", i)
			queues = append(queues, queue)
			in := inQueue(queue)
			records = append(records, plainRecord("ready", in), plainRecord("expires", in, func(r *driver.Record) {
				r.TimeInfo.DispatchBy = time.Now().Add(time.Second)
			}))
		}
		putAll(t, d, records...)
		pass(time.Minute)
		assert.Len(t, claimAll(t, d, request("owner", 0, queues...)), len(queues))
	})
}

// A claim from many queues of which all with jobs were paused took them for resumed, and read their jobs.
func TestAClaimReadTheJobsOfPausedQueuesAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		var queues []string
		var records []*driver.Record
		for i := range 200 {
			queue := fmt.Sprint("queue", i)
			queues = append(queues, queue)
			_, err := d.Control(t.Context(), queue, driver.ControlChange{Paused: new(true)})
			require.NoError(t, err)
			records = append(records, plainRecord("job", inQueue(queue)))
		}
		putAll(t, d, records...)
		require.Empty(t, claimAll(t, d, request("owner", 1, queues...)))
		pass(10 * time.Second)
		s.Commands().Reset()
		require.Empty(t, claimAll(t, d, request("owner", 1, queues...)))
		assert.LessOrEqual(t, s.Commands().Named("aggregate"), 2, s.Commands())
	})
}

// A claim that returned only expired jobs, or asked only for these, made a process with idle workers seem
// busy, so that it did not hear of new jobs.
func TestAProcessThatClaimedExpiredJobsDidNotHearOfNewOnes(t *testing.T) {
	for name, limit := range map[string]int{"that came instead of others": 1, "only": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				d, producer := openOn(t, s), openOn(t, s)
				require.Empty(t, claimAll(t, d, request("owner", 1, "queue")), "its worker is idle")
				putAll(t, producer, plainRecord("old", func(r *driver.Record) { r.TimeInfo.DispatchBy = time.Now().Add(time.Second) }))
				pass(time.Minute)
				require.Len(t, claimAll(t, d, request("owner", limit, "queue")), 1)
				pass(time.Minute)
				count := heard([]*mongodb.Driver{d})
				putAll(t, producer, plainRecord("new"))
				assert.Equal(t, 1, count())
			})
		})
	}
}

// Work read the settings of all queues.
func TestWorkReadTheSettingsOfAllQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		var controls []any
		for i := range 2000 {
			queue := fmt.Sprint("idle", i)
			controls = append(controls, bson.M{"_id": "queue/" + queue, "queue": queue, "removed": 1})
		}
		_, err := s.Collection("work.group.control").InsertMany(t.Context(), controls)
		require.NoError(t, err)
		putAll(t, d, plainRecord("job"))
		s.Server().ResetCosts()
		work, err := d.Work(t.Context(), time.Now())
		require.NoError(t, err)
		assert.Equal(t, []driver.QueueWork{{Queue: "queue", Ready: true}}, work.Queues)
		assert.LessOrEqual(t, s.Server().Costs().Examined.Documents, int64(10))
	})
}

// Work read all jobs that were due, of which there are very many when the service was down for a while.
func TestWorkReadAllJobsThatWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		records := plainRecords(1000)
		for _, r := range records {
			r.TimeInfo.WaitUntil = time.Now().Add(time.Second)
		}
		putAll(t, d, records...)
		work := func(now time.Time) (queues []driver.QueueWork, examined int64) {
			s.Server().ResetCosts()
			work, err := d.Work(t.Context(), now)
			require.NoError(t, err)
			return work.Queues, s.Server().Costs().Examined.Documents
		}
		none, before := work(time.Now())
		require.Empty(t, none)
		pass(time.Minute)
		queues, examined := work(time.Now())
		assert.LessOrEqual(t, examined, before+300)
		assert.Equal(t, []driver.QueueWork{{Queue: "queue", Ready: true}}, queues)
	})
}

// Each caller that waited for a job made its process open two change streams: one that shows ends, and one
// that does not.
func TestEachWaitForAJobOpenedTwoChangeStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		var opened atomic.Int64
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Command.Lookup("pipeline", "0", "$changeStream").Type != 0 {
				opened.Add(1)
			}
			return mongotest.Served
		})
		d := openOn(t, s)
		claimAll(t, d, request("owner", 1, "queue"))
		pass(time.Second)
		for range 10 {
			stop := d.Subscribe(func(driver.Change) {})
			pass(time.Second)
			stop()
			pass(time.Second)
		}
		assert.LessOrEqual(t, opened.Load(), int64(2))
		pass(time.Minute)
		assert.EqualValues(t, 3, opened.Load(), "nobody waits any more")
	})
}

// A paused queue made the end of each job of the other queues wake every process.
func TestEachEndWokeEveryProcessBesideAPausedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		drivers := openAll(t, s, 3)
		_, err := drivers[0].Control(t.Context(), "paused", driver.ControlChange{Paused: new(true)})
		require.NoError(t, err)
		for _, d := range drivers {
			require.Empty(t, claimAll(t, d, request("owner", 1, "paused", "queue")))
		}
		putAll(t, drivers[0], plainRecord("job"))
		running := claimAll(t, drivers[0], request("owner", 1, "queue"))
		require.Len(t, running, 1)
		pass(time.Minute)
		count := heard(drivers[1:])
		endAll(t, drivers[0], running...)
		pass(time.Second)
		assert.Zero(t, count())
	})
}

// A process that had closed a queue with a limit heard of the end of each job of the others from then on.
func TestEachEndWokeAProcessThatHadClosedALimitedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		drivers := openAll(t, s, 2)
		_, err := drivers[0].Control(t.Context(), "limited", driver.ControlChange{MaxRunning: new(1)})
		require.NoError(t, err)
		require.Empty(t, claimAll(t, drivers[1], request("owner", 1, "limited", "queue")))
		putAll(t, drivers[0], plainRecord("job"))
		running := claimAll(t, drivers[0], request("owner", 1, "queue"))
		require.Len(t, running, 1)
		for range 8 { // as an engine does that has closed the queue
			pass(30 * time.Second)
			require.Empty(t, claimAll(t, drivers[1], request("owner", 1, "queue")))
		}
		pass(time.Second)
		count := heard(drivers[1:])
		endAll(t, drivers[0], running...)
		pass(time.Second)
		assert.Zero(t, count())
	})
}

// The finished jobs of many queues were removed with a command for each queue, one after the other, so that
// they became more than a call could remove in its time.
func TestForgettingTheJobsOfManyQueuesTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		const queues = 1000
		var records []*driver.Record
		for i := range queues {
			records = append(records, plainRecord("job", func(r *driver.Record) {
				r.Group = fmt.Sprint("queue", i)
				r.Name = driver.RecordName(r.Group, "job", r.RetryInfo)
				r.Status.Completed, r.TimeInfo.End, r.ForgetAt = true, time.Now(), time.Now()
			}))
		}
		putAll(t, d, records...)
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name == "delete" {
				time.Sleep(20 * time.Millisecond) // until the majority has it
			}
			return mongotest.Served
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // as the queue does
		defer cancel()
		forgotten, err := d.Forget(ctx, time.Now(), queues)
		require.NoError(t, err)
		assert.Equal(t, queues, forgotten)
		stats, err := d.Stats(t.Context(), "queue7")
		require.NoError(t, err)
		assert.Equal(t, 1, stats.Completed)
	})
}

// When jobs of many queues ended together, their scopes were freed with two commands for each queue, one after the
// other.
func TestTheScopesOfManyQueuesWereFreedOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		var queues []string
		var records []*driver.Record
		for i := range 48 {
			queue := fmt.Sprint("queue", i)
			queues = append(queues, queue)
			records = append(records, plainRecord("job", wantsScope, inQueue(queue)))
		}
		putAll(t, d, records...)
		running := claimAll(t, d, request("owner", len(queues), queues...))
		require.Len(t, running, len(queues))
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name == "aggregate" {
				time.Sleep(10 * time.Millisecond) // the way to the server and back
			}
			return mongotest.Served
		})
		assert.Less(t, since(func() { endAll(t, d, running...) }), 100*time.Millisecond)
	})
}

// A claim locked each of 50 queues with a limit, one after the other, and took tokens of each with a rate, to
// take a few jobs.
func TestAClaimLockedQueuesOfWhichItTookNoJob(t *testing.T) {
	for name, limit := range map[string]struct {
		change driver.ControlChange
		others int // that a further claim takes
	}{
		"limit": {driver.ControlChange{MaxRunning: new(5)}, 146},
		"rate":  {driver.ControlChange{Rate: &amboy.Rate{PerSecond: 10}}, 46}, // a queue begins with one token
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				d := openOn(t, s)
				var queues []string
				var records []*driver.Record
				for i := range 50 {
					queue := fmt.Sprint("queue", i)
					_, err := d.Control(t.Context(), queue, limit.change)
					require.NoError(t, err)
					queues = append(queues, queue)
					for j := range 3 {
						records = append(records, plainRecord("", func(r *driver.Record) {
							r.Group, r.Name = queue, driver.RecordName(queue, fmt.Sprint(j), r.RetryInfo)
						}))
					}
				}
				putAll(t, d, records...)
				claimAll(t, d, request("owner", 1, "none"))
				pass(10 * time.Second)
				s.Commands().Reset()
				require.Len(t, claimAll(t, d, request("owner", 4, queues...)), 4)
				assert.LessOrEqual(t, s.Commands().Named("findAndModify", "update"), 20, s.Commands())
				require.Len(t, claimAll(t, d, request("owner", 1000, queues...)), limit.others, "of all queues, if there are workers")
			})
		})
	}
}

// A service of the legacy library names the index of its own claims. With that index each claim read all
// jobs of the queue that waited for their time.
func TestTheHintOfALegacyServiceMadeClaimsReadAllWaitingJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		legacy := bson.D{{Key: "status.completed", Value: 1}, {Key: "status.in_prog", Value: 1}, {Key: "status.mod_ts", Value: 1}}
		_, err := s.Collection("work.group").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: append(bson.D{{Key: "group", Value: 1}}, legacy...)})
		require.NoError(t, err)
		d := openOn(t, s, func(o *mongodb.Options) { o.Hint = legacy })
		records := plainRecords(1000)
		for _, r := range records {
			r.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
		}
		putAll(t, d, append(records, plainRecord("ready"))...)
		s.Server().ResetCosts()
		require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
		assert.LessOrEqual(t, s.Server().Costs().Examined.Documents, int64(20))
	})
}

// When jobs of many queues ended together, their dependents were released with three commands for each queue, one after
// the other, and the ends were not acknowledged until then.
func TestTheDependentsInManyQueuesWereReleasedOneAfterTheOther(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		var queues []string
		var records []*driver.Record
		for i := range 48 {
			queue := fmt.Sprint("queue", i)
			queues = append(queues, queue)
			records = append(records, plainRecord("target", inQueue(queue)), plainRecord("dependent", dependsOn("target"), inQueue(queue)))
		}
		putAll(t, d, records...)
		running := claimAll(t, d, request("owner", len(queues), queues...))
		require.Len(t, running, len(queues))
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Collection != "" { // opening connections is not measured: how many are open already is a matter of luck
				time.Sleep(10 * time.Millisecond) // the way to the server and back
			}
			return mongotest.Served
		})
		assert.Less(t, since(func() { endAll(t, d, running...) }), 200*time.Millisecond)
		s.Server().Intercept(nil)
		assert.Len(t, claimAll(t, d, request("owner", len(queues), queues...)), len(queues))
	})
}
