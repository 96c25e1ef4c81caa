package mongodb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

func indexOf(keys bson.D) mongo.IndexModel { return mongo.IndexModel{Keys: keys} }

// document returns the document with an _id in the store of many queues.
func (s *store) document(id string) (doc bson.M) {
	s.Helper()
	require.NoError(s, s.jobs(true).FindOne(s.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&doc))
	return doc
}

// claimSoon claims until it gets a record.
func claimSoon(t *testing.T, d driver.Driver) []string {
	t.Helper()
	told := make(chan struct{}, 1)
	defer d.Subscribe(func(driver.Change) {
		select {
		case told <- struct{}{}:
		default:
		}
	})()
	for {
		if claimed := claim(t, d, request("owner", 10, "q")); len(claimed) > 0 {
			return names(claimed)
		}
		<-told
	}
}

// TestSweepOfScopes removes the holder of a scope without a notification.
func TestSweepOfScopes(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T) {
		s := newStore(t)
		scoped := func(j *job.ShellJob) { j.SetScopes([]string{"s"}) }
		first := s.open()
		insert(t, first, newRecord(t, "q", "holder", scoped), newRecord(t, "q", "waits", scoped))
		require.Len(t, claim(t, first, request("owner", 10, "q")), 1)
		_, err := s.jobs(true).DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "q.holder"}})
		require.NoError(t, err)
		assert.Equal(t, []string{"q.waits"}, claimSoon(t, s.open()))
	})
}

// TestSweepOfEdges has a job that ended without an update of its dependents.
func TestSweepOfEdges(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T) {
		s := newStore(t)
		first := s.open()
		waits := newRecord(t, "q", "waits")
		waits.Dependency = &registry.DependencyInterchange{Type: "always", Edges: []string{"target"}, Dependency: waits.Dependency.Dependency}
		insert(t, first, newRecord(t, "q", "target"), waits)
		_, err := s.jobs(true).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "q.target"}}, bson.D{
			{Key: "$set", Value: bson.D{{Key: "status.completed", Value: true}, {Key: "settle", Value: true}}},
			{Key: "$unset", Value: bson.D{{Key: "line", Value: ""}}},
		})
		require.NoError(t, err)
		require.NoError(t, first.Close(t.Context())) // otherwise it may sweep before the other driver
		assert.Equal(t, []string{"q.waits"}, claimSoon(t, s.open()))
		unmarked := func() bool { return s.document("q.target")["settle"] == nil }
		assert.Eventually(t, unmarked, 10*time.Second, time.Millisecond, "after the dependents were updated")
	})
}

// TestRetryOfAProcessThatDied kills a process between the writes of a retry on a
// standalone server.
func TestRetryOfAProcessThatDied(t *testing.T) {
	t.Parallel()
	deployment := mongotest.Open(t, mongotest.Standalone())
	open := func() driver.Driver {
		d, err := mongodb.Open(t.Context(), mongodb.Options{
			Client: deployment.Connect(), DB: deployment.Database(), Collection: "work", Grouped: true,
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
		return d
	}
	dying := open()
	first := newRecord(t, "q", "job", func(j *job.ShellJob) {
		retryable := true
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable})
	})
	first.RequiredScopes, first.EnqueueScopes = []string{"s"}, []string{"s"}
	insert(t, dying, first)
	running := claim(t, dying, request("owner", 1, "q"))
	require.Len(t, running, 1)
	failed := *running[0]
	failed.Status.Completed, failed.Status.InProgress = true, false
	failed.RetryInfo.NeedsRetry = true
	errs, err := dying.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(running[0]), Record: &failed}})
	require.NoError(t, err)
	require.NoError(t, errs[0])

	next := *first
	next.RetryInfo.CurrentAttempt = 1
	next.Name = driver.RecordName("q", "job", next.RetryInfo)
	deployment.Fail(mongotest.Failure{Commands: []string{"update"}, CloseConnection: true})
	require.ErrorIs(t, dying.Retry(t.Context(), &failed, &next), driver.ErrOutcomeUnknown)
	require.NoError(t, dying.Close(t.Context()))
	deployment.Heal()

	assert.Equal(t, []string{"q.attempt-1.job"}, claimSoon(t, open()))
	attempts, err := open().Attempts(t.Context(), "q", "job")
	require.NoError(t, err)
	require.Len(t, attempts, 2)
	assert.Empty(t, attempts[0].Scopes)
	assert.False(t, attempts[0].RetryInfo.NeedsRetry)
	assert.Equal(t, []string{"s"}, attempts[1].Scopes)
}

// More jobs than a sweep reads wait for jobs that have not ended. A dependent of a job that
// has ended, and one of a job that is gone, come after them.
func TestSweepsStarvedBehindManyThatWait(t *testing.T) {
	for name, targets := range map[string]int{"for one job": 1, "for many jobs": 1001} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, mongotest.Options{InMemory: true})
				first := s.open()
				var records []*driver.Record
				for i := range targets {
					records = append(records, plainRecord(fmt.Sprint("a", i)))
				}
				for i := range 1001 {
					records = append(records, plainRecord(fmt.Sprint("waits", i), dependsOn(fmt.Sprint("a", i%targets))))
				}
				records = append(records, plainRecord("z ended"), plainRecord("z gone"),
					plainRecord("of ended", dependsOn("z ended")), plainRecord("of gone", dependsOn("z gone")))
				putAll(t, first, records...)
				require.NoError(t, first.Close(t.Context())) // its process has died
				_, err := s.jobs(true).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "queue.z ended"}}, bson.D{
					{Key: "$set", Value: bson.D{{Key: "status.completed", Value: true}}},
					{Key: "$unset", Value: bson.D{{Key: "line", Value: ""}}},
				})
				require.NoError(t, err)
				_, err = s.jobs(true).DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "queue.z gone"}})
				require.NoError(t, err)
				second := s.open()
				claimed := claimAll(t, second, request("owner", 2000, "queue")) // from then on it sweeps
				time.Sleep(10 * time.Second)
				claimed = append(claimed, claimAll(t, second, request("owner", 2000, "queue"))...)
				assert.Len(t, claimed, targets+2)
			})
		})
	}
}

// A sweep that the server refused was repeated at once, thousands of times a second.
func TestASweepThatFailedWasRepeatedWithoutAPause(t *testing.T) {
	for name, opts := range map[string]mongotest.Options{
		"replica set": {InMemory: true},
		"standalone":  {InMemory: true, Standalone: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, opts)
				d := s.open()
				putAll(t, d, plainRecord("ready"), plainRecord("first", wantsScope), plainRecord("waits", wantsScope))
				claimAll(t, d, request("owner", 1, "queue")) // from then on it sweeps
				pass(2 * time.Second)
				const failures = 100 // without a pause they are used up at once
				require.NoError(t, s.client.Database("admin").RunCommand(t.Context(), bson.D{
					{Key: "configureFailPoint", Value: "failCommand"},
					{Key: "mode", Value: bson.D{{Key: "times", Value: failures}}},
					{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"aggregate"}}, {Key: "errorCode", Value: 292}}},
				}).Err())
				putAll(t, d, plainRecord("second", wantsScope)) // what follows it fails and is left to a forced sweep
				sent := s.commands(func() { pass(16 * time.Second) })
				sent = slices.DeleteFunc(sent, func(c string) bool { return c != "aggregate work.group" })
				assert.NotEmpty(t, sent, "it is repeated later")
				assert.Less(t, len(sent), 10)
			})
		})
	}
}

// makeWait replaces what a document with edges waits for.
func (s *store) makeWait(id string, edges ...string) {
	s.Helper()
	_, err := s.jobs(true).UpdateOne(s.Context(), bson.D{{Key: "_id", Value: id}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "line.edges", Value: edges}}}})
	require.NoError(s, err)
}

// What the documents wait for was grouped by the server, in one command with all that a sweep
// reads. The memory of a $group is bounded, so with many jobs to wait for the sweep found nothing.
func TestASweepWithManyAwaitedJobsDidNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const documents, edges = 100, 100
		s := newStoreOf(t, mongotest.Options{InMemory: true, SortMemory: 256 << 10})
		d := s.open()
		records := []*driver.Record{plainRecord("ended"), plainRecord("of ended", dependsOn("ended")), plainRecord("target")}
		for i := range documents {
			records = append(records, plainRecord(fmt.Sprint(i), dependsOn("target")))
		}
		putAll(t, d, records...)
		for i := range documents {
			var names []string
			for j := range edges {
				names = append(names, fmt.Sprintf("job %d of %d", j, i))
			}
			s.makeWait(fmt.Sprint("queue.", i), names...)
		}
		// A process has ended the job and died before it released the dependent.
		_, err := s.jobs(true).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "queue.ended"}}, bson.D{
			{Key: "$set", Value: bson.D{{Key: "status.completed", Value: true}, {Key: "settle", Value: true}}},
			{Key: "$unset", Value: bson.D{{Key: "line", Value: ""}}},
		})
		require.NoError(t, err)
		claimed := names(claimAll(t, d, request("owner", 10, "queue"))) // from then on it sweeps
		pass(time.Second)
		claimed = append(claimed, names(claimAll(t, d, request("owner", 10, "queue")))...)
		assert.ElementsMatch(t, []string{"queue.target", "queue.of ended"}, claimed)
		pass(10 * time.Minute)
		assert.Len(t, claimAll(t, d, request("owner", documents, "queue")), documents, "what they wait for does not exist")
	})
}

// Pages of what documents wait for leave out none, whatever is in several of them, and in whatever queue.
func TestASweepFindsAllAwaitedJobs(t *testing.T) {
	for _, grouped := range []bool{true, false} {
		t.Run(fmt.Sprint("grouped ", grouped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const documents = 2500
				s := newStoreOf(t, mongotest.Options{InMemory: true})
				d := s.open(func(o *mongodb.Options) { o.Grouped = grouped })
				var all []*driver.Record
				queues := []string{"queue"}
				if grouped {
					queues = append(queues, "another", "third")
				}
				in := func(i int, r *driver.Record) *driver.Record {
					r.Group = queues[i%len(queues)]
					r.Name = driver.RecordName(r.Group, strings.TrimPrefix(r.Name, "queue."), r.RetryInfo)
					if !grouped {
						r.Name, r.Group = strings.TrimPrefix(r.Name, "queue."), ""
					}
					return r
				}
				for i := range queues {
					all = append(all, in(i, plainRecord("target")))
				}
				for i := range documents {
					all = append(all, in(i, plainRecord(fmt.Sprint(i), dependsOn("target"))))
				}
				putAll(t, d, all...)
				var models []mongo.WriteModel
				for i, r := range all[len(queues):] {
					edges := []string{"b", fmt.Sprint("c", i%7), fmt.Sprint("a", i), fmt.Sprint("d", i)}
					models = append(models, mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: r.Name}}).
						SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: "line.edges", Value: edges}}}}))
				}
				_, err := s.jobs(grouped).BulkWrite(t.Context(), models)
				require.NoError(t, err)
				demand := request("owner", len(all), queues...)
				if !grouped {
					demand = request("owner", len(all), "")
				}
				require.Len(t, claimAll(t, d, demand), len(queues)) // from then on it sweeps
				pass(10 * time.Minute)
				n := 0
				for range 4 {
					n += len(claimAll(t, d, demand))
				}
				assert.Equal(t, documents, n, "what they wait for does not exist")
			})
		})
	}
}

// A sweep did what was left in many queues one after the other, and so did not get far in its time.
func TestASweepOfManyQueuesTookTooLong(t *testing.T) {
	const queues = 1000
	for name, test := range map[string]struct {
		put   func(queue string) []*driver.Record
		leave bson.M // what a dead process has changed
	}{
		"ends without the release of dependents": {
			put: func(queue string) []*driver.Record {
				return []*driver.Record{plainRecord("target", inQueue(queue)), plainRecord("left", dependsOn("target"), inQueue(queue))}
			},
			leave: bson.M{"status.completed": true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d := openOn(t, s)
				claimAll(t, d, request("owner", 1, "none"))
				var records []*driver.Record
				for i := range queues {
					records = append(records, test.put(fmt.Sprint("queue", i))...)
				}
				putAll(t, d, records...)
				jobs := s.Collection("work.group")
				_, err := jobs.UpdateMany(t.Context(), bson.M{"job_id": "target"}, bson.M{"$set": test.leave, "$unset": bson.M{"line": ""}})
				require.NoError(t, err)
				s.Server().Intercept(func(mongotest.Intercepted) mongotest.Fate {
					time.Sleep(20 * time.Millisecond) // the way to the server and back
					return mongotest.Served
				})
				pass(30 * time.Second)
				n, err := jobs.CountDocuments(t.Context(), bson.M{"line.in": "ready"})
				require.NoError(t, err)
				assert.EqualValues(t, queues, n)
			})
		})
	}
}

// A process died when it had written the next attempts of many retries. A sweep let them take over one after the other.
func TestASweepFinishedInterruptedRetriesOneAfterTheOther(t *testing.T) {
	const retries = 400
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		p, dieBefore := newDying(t, s)
		d := openOn(t, s)
		claimAll(t, d, request("other", 1, "none"))
		pairs := awaitingRetries(t, d, retries, fails) // p claims nothing, so it has no duty to sweep that d would have to wait for
		dieBefore("update", 2)                         // the first is that of the first call
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		retryAll(ctx, p, pairs...)
		require.True(t, p.isDead())
		waiting := bson.M{"line.in": "handover"}
		n, err := s.Collection("work.group").CountDocuments(t.Context(), waiting)
		require.NoError(t, err)
		require.Greater(t, n, int64(retries/2))
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.AppName == "dying" {
				return p.fate(c)
			}
			time.Sleep(20 * time.Millisecond) // the way to the server and back
			return mongotest.Served
		})
		pass(15 * time.Second)
		n, err = s.Collection("work.group").CountDocuments(t.Context(), waiting)
		require.NoError(t, err)
		assert.Zero(t, n)
	})
}
