package mongodb_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// commands counts the commands sent to a server, by name. Commands that the driver sends
// in the background (hello, change streams, sweeps) are not counted: it decides by itself when.
type commands struct {
	mu    sync.Mutex
	count map[string]int
}

// counted opens a driver and counts its commands.
func counted(t *testing.T, s *store) (*mongodb.Driver, *commands) {
	t.Helper()
	c := &commands{count: map[string]int{}}
	opts := *s.options
	opts.SetMonitor(&event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		if ctx.Value(background{}) != nil || isOfChangeStream(e) {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count[e.CommandName]++
	}})
	client, err := mongo.Connect(t.Context(), &opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	d := s.openIn(context.WithValue(t.Context(), background{}, true), func(o *mongodb.Options) { o.Client = client })
	return d, c
}

// background is the key of a value in the contexts of what a driver does by itself, such as sweeps.
type background struct{}

// isOfChangeStream reports whether a command opens, follows or ends a change stream. A stream serves all drivers of a
// client, so its commands do not have the context of one of them.
func isOfChangeStream(e *event.CommandStartedEvent) bool {
	return e.CommandName == "getMore" || e.CommandName == "killCursors" ||
		e.Command.Lookup("pipeline", "0", "$changeStream").Type != 0
}

// during returns the commands that are sent during a call. What calls before it have caused, such as an event or
// another change stream, comes before it, except on a real server.
func (c *commands) during(call func()) map[string]int {
	if serverURI == "" {
		synctest.Wait()
	}
	c.mu.Lock()
	clear(c.count)
	c.mu.Unlock()
	call()
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

func total(count map[string]int) (n int) {
	for _, c := range count {
		n += c
	}
	return n
}

func plainRecord(id string, change ...func(*driver.Record)) *driver.Record {
	const queue = "queue"
	r := &driver.Record{Name: driver.RecordName(queue, id, amboy.JobRetryInfo{}), Group: queue, Type: "type"}
	for _, c := range change {
		c(r)
	}
	return r
}

// inQueue puts a plain record into another queue.
func inQueue(queue string) func(*driver.Record) {
	return func(r *driver.Record) { r.Group, r.Name = queue, strings.Replace(r.Name, "queue", queue, 1) }
}

func putAll(t *testing.T, d driver.Driver, records ...*driver.Record) {
	t.Helper()
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, err)
	for i, failure := range errs {
		require.NoError(t, failure, records[i].Name)
	}
}

func request(owner string, limit int, queues ...string) driver.ClaimRequest {
	req := driver.ClaimRequest{Owner: owner, Limit: limit, Now: time.Now(), LeaseTime: time.Minute}
	for _, queue := range queues {
		req.Queues = append(req.Queues, driver.Demand{Queue: queue, Limit: limit})
	}
	return req
}

func claimAll(t *testing.T, d driver.Driver, req driver.ClaimRequest) []*driver.Record {
	t.Helper()
	claimed, err := d.Claim(t.Context(), req)
	require.NoError(t, err)
	return claimed.Records
}

func endAll(t *testing.T, d driver.Driver, records ...*driver.Record) {
	t.Helper()
	completions := make([]driver.Completion, len(records))
	for i, r := range records {
		ended := *r
		ended.Status.Completed, ended.Status.InProgress = true, false
		ended.TimeInfo.End = time.Now()
		completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: &ended}
	}
	errs, err := d.Complete(t.Context(), completions)
	require.NoError(t, err)
	for i, failure := range errs {
		require.NoError(t, failure, records[i].Name)
	}
}

func TestCommandsOfOneJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, commandsOfOneJob)
}

func commandsOfOneJob(t *testing.T) {
	d, sent := counted(t, newStoreOf(t, mongotest.Options{InMemory: true}))
	claimAll(t, d, request("owner", 1, "queue")) // the first claim starts a sweep
	assert.Equal(t, map[string]int{"insert": 1, "aggregate": 1, "update": 2}, sent.during(func() {
		putAll(t, d, plainRecord("job"))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		endAll(t, d, running...)
	}))
}

func TestCommandsOfARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, sent := counted(t, newStoreOf(t, mongotest.Options{InMemory: true}))
		failed, next := awaitingRetry(t, d)
		assert.Equal(t, map[string]int{"find": 2, "insert": 1, "update": 1}, sent.during(func() {
			require.NoError(t, d.Retry(t.Context(), failed, next))
		}))
	})
}

func TestCommandsOfARetryThatKeepsAUniqueKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, sent := counted(t, newStoreOf(t, mongotest.Options{InMemory: true}))
		failed, next := awaitingRetry(t, d, func(r *driver.Record) { r.UniqueKey = "key" })
		assert.Equal(t, map[string]int{"find": 1, "insert": 1, "update": 1, "commitTransaction": 1}, sent.during(func() {
			require.NoError(t, d.Retry(t.Context(), failed, next))
		}))
	})
}

func TestCommandsOfIdleQueues(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T) {
		d, sent := counted(t, newStore(t))
		for _, n := range []int{1, 8, 1000} {
			queues := make([]string, n)
			for i := range queues {
				queues[i] = fmt.Sprint(i)
			}
			claimAll(t, d, request("owner", 1, queues...))
			assert.LessOrEqual(t, total(sent.during(func() {
				require.Empty(t, claimAll(t, d, request("owner", 64, queues...)))
			})), 1, "%d queues", n)
		}
	})
}

func TestCommandsOfAHeartbeat(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T) {
		d, sent := counted(t, newStore(t))
		const jobs = 200
		var records []*driver.Record
		for i := range jobs {
			records = append(records, plainRecord(fmt.Sprint(i)))
		}
		putAll(t, d, records...)
		running := claimAll(t, d, request("owner", jobs, "queue"))
		require.Len(t, running, jobs)
		leases := make([]driver.Lease, jobs)
		for i, r := range running {
			leases[i] = driver.LeaseOf(r)
		}
		count := sent.during(func() {
			lost, err := d.Extend(t.Context(), leases, time.Minute)
			require.NoError(t, err)
			require.Empty(t, lost)
			n, err := d.RecoverStale(t.Context())
			require.NoError(t, err)
			require.Zero(t, n)
		})
		assert.LessOrEqual(t, total(count), 3, "one to extend and two to recover: %v", count)
	})
}

// TestCommandsOfADrain runs one process that claims as many jobs as it has workers.
func TestCommandsOfADrain(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T) {
		d, sent := counted(t, newStore(t))
		const jobs, at, workers = 640, 160, 64
		count := sent.during(func() {
			for i := 0; i < jobs; i += at {
				var records []*driver.Record
				for j := range at {
					records = append(records, plainRecord(fmt.Sprint(i+j)))
				}
				putAll(t, d, records...)
			}
			for {
				running := claimAll(t, d, request("owner", workers, "queue"))
				if len(running) == 0 {
					return
				}
				endAll(t, d, running...)
			}
		})
		assert.LessOrEqual(t, float64(total(count)), 0.15*jobs, "%v", count)
	})
}

// TestCommandsOfOneScope runs three processes that claim jobs with a common scope.
func TestCommandsOfOneScope(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T) {
		s := newStore(t)
		const jobs, processes = 100, 3
		scoped := func(r *driver.Record) { r.RequiredScopes = []string{"scope"} }
		var drivers []driver.Driver
		var counts []*commands
		for range processes {
			d, sent := counted(t, s)
			drivers, counts = append(drivers, d), append(counts, sent)
		}
		var records []*driver.Record
		for i := range jobs {
			records = append(records, plainRecord(fmt.Sprint(i), scoped))
		}
		putAll(t, drivers[0], records...)
		done := 0
		var all []map[string]int
		for i := 0; done < jobs; i++ {
			d := drivers[i%processes]
			all = append(all, counts[i%processes].during(func() {
				running := claimAll(t, d, request(fmt.Sprint(i), 20, "queue"))
				require.LessOrEqual(t, len(running), 1, "jobs with the scope run")
				endAll(t, d, running...)
				done += len(running)
			}))
		}
		sum := 0
		for _, count := range all {
			sum += total(count)
		}
		assert.LessOrEqual(t, sum, 8*jobs, "the last: %v", all[len(all)-1])
	})
}

// Each waiter that was made ready cost two commands.
func TestEndsOfALimitedScopeMadeItsWaitersReadyOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 40
		d, sent := counted(t, newStoreOf(t, mongotest.Options{InMemory: true}))
		records := plainRecords(3*limit + 5)
		for _, r := range records {
			r.RequiredScopes = []string{amboy.LimitScope("scope", limit)}
		}
		putAll(t, d, records...)
		for range 3 {
			running := claimAll(t, d, request("owner", len(records), "queue"))
			require.Len(t, running, limit)
			count := sent.during(func() { endAll(t, d, running...) })
			assert.LessOrEqual(t, total(count), 3, "one to end, one to query and one to make waiters ready: %v", count)
		}
		running := claimAll(t, d, request("owner", len(records), "queue"))
		require.Len(t, running, 5)
		endAll(t, d, running...)
	})
}

// A sweep does not know how many of the holders have ended.
func TestALimitedScopeWithManyFreePlacesIsFilledWithFewCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d, sent := counted(t, s)
		other := s.open()
		records := plainRecords(2 * limit)
		for _, r := range records {
			r.RequiredScopes = []string{amboy.LimitScope("scope", limit)}
		}
		putAll(t, d, records...)
		require.Len(t, claimAll(t, d, request("owner", limit, "queue")), limit)
		_, err := s.jobs(true).UpdateMany(t.Context(), bson.M{"status.in_prog": true}, bson.M{
			"$set":   bson.M{"status.in_prog": false, "status.completed": true, "time_info.end": time.Now()},
			"$unset": bson.M{"scopes": "", "lease_until": ""},
		})
		require.NoError(t, err)
		last := plainRecord("last")
		last.RequiredScopes = records[0].RequiredScopes
		count := sent.during(func() { putAll(t, d, last) })
		assert.LessOrEqual(t, total(count), 12, "%v", count)
		assert.Len(t, claimAll(t, other, request("owner", 2*limit, "queue")), limit)
	})
}

// A server matches by backtracking, for each star from each position where the one before
// matches: ten stars take practically forever, and three do not lock other clients out.
func TestAttackAPatternWithManyStarsKeepsAServerBusy(t *testing.T) {
	s := newStore(t)
	var mu sync.Mutex
	var sent string
	opts := *s.options
	opts.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		mu.Lock()
		defer mu.Unlock()
		sent += e.Command.String() + "\n"
	}})
	client, err := mongo.Connect(t.Context(), &opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	d := s.open(func(o *mongodb.Options) { o.Client = client })
	insert(t, d, newRecord(t, "q", "begin-aaaa-end"), newRecord(t, "q", "begin-aaba-end"))
	for _, queues := range [][]string{nil, {"q"}} {
		found, err := d.Find(t.Context(), driver.Query{Queues: queues, ID: "begin*a*b*a*e*d"}, driver.PageRequest{Limit: 10})
		require.NoError(t, err)
		require.Len(t, found.Records, 1)
		assert.Equal(t, "begin-aaba-end", found.Records[0].JobID())
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Contains(t, sent, "begin.*d")
	assert.NotContains(t, sent, "begin.*a")
}

// docs/internals/mongodb.md says that every write waits for the majority.
func TestAllWritesWaitForTheMajority(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	var mu sync.Mutex
	seen := map[string]bool{}
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.AppName != s.Database() || !slices.Contains([]string{"insert", "update", "delete", "findAndModify", "createIndexes", "commitTransaction"}, c.Name) {
			return mongotest.Served
		}
		mu.Lock()
		defer mu.Unlock()
		seen[c.Name] = true
		concern, _ := c.Command.Lookup("writeConcern", "w").StringValueOK()
		inTransaction := c.Command.Lookup("autocommit").Type != 0 && c.Name != "commitTransaction"
		assert.Equal(t, !inTransaction, concern == "majority", "%s", c.Command)
		return mongotest.Served
	})
	d := openOn(t, s)
	failed, next := awaitingRetry(t, d, func(r *driver.Record) { r.UniqueKey = "key" })
	require.NoError(t, d.Retry(t.Context(), failed, next))
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	_, err := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(running[0])}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, d.SetProgress(t.Context(), driver.LeaseOf(running[0]), driver.Progress{}))
	running[0].ForgetAt = time.Now()
	endAll(t, d, running...)
	_, err = d.Forget(t.Context(), time.Now().Add(time.Hour), 10)
	require.NoError(t, err)
	paused := true
	_, err = d.Control(t.Context(), "queue", driver.ControlChange{Paused: &paused})
	require.NoError(t, err)
	_, err = d.Mark(t.Context(), "queue", "mark", time.Now())
	require.NoError(t, err)
	_, err = d.TakeDuty(t.Context(), driver.Duty{Name: "duty", Owner: "owner", For: time.Minute}, time.Now())
	require.NoError(t, err)
	require.NoError(t, d.Keep(t.Context(), driver.Note{Kind: "kind", Key: "key", Until: time.Now().Add(time.Hour)}))
	require.NoError(t, d.Drop(t.Context(), "kind", "key"))
	mu.Lock()
	defer mu.Unlock()
	assert.Len(t, seen, 6, "%v", seen)
}
