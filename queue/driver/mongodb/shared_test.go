package mongodb_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// inMemory runs a test with a deployment of its own, in a bubble.
func inMemory(t *testing.T, test func(t *testing.T, s *mongotest.Deployment)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, mongotest.Open(t, mongotest.InMemory())) })
}

func plainRecords(n int) []*driver.Record {
	records := make([]*driver.Record, n)
	for i := range records {
		records[i] = plainRecord(fmt.Sprint(i))
	}
	return records
}

// The stand-in counts what a server pays in the life of a plain job after its insert, without
// retention and indexes for the legacy library.
func TestIndexKeysOfAPlainJob(t *testing.T) {
	for _, grouped := range []bool{true, false} {
		inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
			d := openOn(t, s, func(o *mongodb.Options) { o.Grouped = grouped })
			r, queue, collection := plainRecord("job"), "queue", "work.group"
			if !grouped {
				r.Group, r.Name, queue, collection = "", "job", "", "work.jobs"
			}
			putAll(t, d, r)
			s.Server().ResetCosts()
			endAll(t, d, claimAll(t, d, request("owner", 1, queue))...)
			written := s.Server().Costs().Writes[collection]
			t.Logf("grouped: %t: %d keys: %v", grouped, written.AllKeys(), written.Keys)
			assert.LessOrEqual(t, written.AllKeys(), int64(8))
		})
	}
}

func TestOneStatementClaimsAndOneEndsAllOfABatch(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		const jobs = 10
		putAll(t, d, plainRecords(jobs)...)
		s.Server().ResetCosts()
		running := claimAll(t, d, request("owner", jobs, "queue"))
		require.Len(t, running, jobs)
		assert.EqualValues(t, 1, s.Server().Costs().Statements())

		completions := make([]driver.Completion, jobs)
		for i, r := range running {
			ended := *r
			ended.Status.Completed, ended.Status.InProgress = true, false
			at := time.Now().Truncate(time.Millisecond).UTC()
			ended.TimeInfo.Start, ended.TimeInfo.End = at.Add(time.Duration(i)*time.Second), at.Add(time.Duration(2*i)*time.Second)
			ended.ForgetAt = at.Add(time.Duration(i) * time.Hour)
			completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: &ended}
		}
		s.Server().ResetCosts()
		errs, err := d.Complete(t.Context(), completions)
		require.NoError(t, err)
		costs := s.Server().Costs()
		assert.EqualValues(t, 1, costs.Statements(), costs)
		for i, r := range running {
			require.NoError(t, errs[i])
			got, err := d.Get(t.Context(), "queue", r.JobID())
			require.NoError(t, err)
			assert.Equal(t, completions[i].Record.TimeInfo, got.TimeInfo, r.Name)
			assert.Equal(t, completions[i].Record.ForgetAt, got.ForgetAt, r.Name)
			assert.Equal(t, amboy.StateSucceeded, driver.StateOf(got, time.Now()))
			assert.Equal(t, r.Job.Raw(), got.Job.Raw())
		}
	})
}

// A batch has jobs of all kinds. Each ends as its record says.
func TestEndsThatAreNotAlikeShareNoStatement(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		records := plainRecords(6)
		records[4].RequiredScopes = []string{"scope"}
		records[5].Tags = []string{"tag"}
		putAll(t, d, records...)
		putAll(t, d, plainRecord("waits", dependsOn("3")), plainRecord("wants", wantsScope))
		running := claimAll(t, d, request("owner", 6, "queue"))
		require.Len(t, running, 6)
		completions := make([]driver.Completion, len(running))
		for i, r := range running {
			ended := *r
			ended.Status.Completed, ended.Status.InProgress, ended.TimeInfo.End = true, false, time.Now()
			switch i {
			case 1:
				ended.Status.AddError(fmt.Errorf("it failed"), 0, time.Now())
			case 2:
				ended.Metadata = map[string]string{"key": "$value", "other": fmt.Sprintf("%02000d", 0)}
			}
			completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: &ended}
		}
		completions[0].Lease.Count++ // it is lost
		errs, err := d.Complete(t.Context(), completions)
		require.NoError(t, err)
		require.ErrorIs(t, errs[0], driver.ErrLeaseLost)
		for i, want := range []amboy.JobState{
			amboy.StateRunning, amboy.StateFailed, amboy.StateSucceeded, amboy.StateSucceeded, amboy.StateSucceeded, amboy.StateSucceeded,
		} {
			got, err := d.Get(t.Context(), "queue", fmt.Sprint(i))
			require.NoError(t, err)
			assert.Equal(t, want, driver.StateOf(got, time.Now()), i)
			if i > 0 {
				require.NoError(t, errs[i])
				assert.Equal(t, completions[i].Record.Metadata, got.Metadata)
			}
		}
		assert.ElementsMatch(t, []string{"queue.waits", "queue.wants"}, names(claimAll(t, d, request("owner", 6, "queue"))))
	})
}

func TestSeveralClaimsAndEndsWhoseAnswerWasLost(t *testing.T) {
	for name, lose := range map[string]func(*mongotest.Deployment){"landed late": late, "rolled back": rolledBack} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d := openOn(t, s)
				putAll(t, d, plainRecords(3)...)
				lose(s)
				running := claimAll(t, d, request("owner", 3, "queue"))
				require.Len(t, running, 3)
				lose(s)
				endAll(t, d, running...)
				n, err := s.Collection("work.group").CountDocuments(t.Context(), bson.D{{Key: "status.completed", Value: true}})
				require.NoError(t, err)
				assert.EqualValues(t, 3, n)
			})
		})
	}
}

// beforeUpdate calls a function once, before the next update of the jobs.
func beforeUpdate(s *mongotest.Deployment, call func()) {
	var called atomic.Bool // the call updates them too
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.AppName == s.Database() && c.Collection == "work.group" && c.Name == "update" && !called.Swap(true) {
			call()
		}
		return mongotest.Served
	})
}

func TestAClaimLeavesACandidateThatALegacyProcessHasLocked(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		putAll(t, d, plainRecords(3)...)
		beforeUpdate(s, func() {
			_, err := s.Collection("work.group").UpdateByID(t.Context(), "queue.1", bson.D{
				{Key: "$set", Value: bson.D{{Key: "status.owner", Value: "legacy"}, {Key: "status.in_prog", Value: true}, {Key: "status.mod_ts", Value: time.Now()}}},
				{Key: "$inc", Value: bson.D{{Key: "status.mod_count", Value: 1}}},
			})
			assert.NoError(t, err)
		})
		assert.Equal(t, []string{"queue.0", "queue.2"}, names(claimAll(t, d, request("owner", 3, "queue"))))
		got, err := d.Get(t.Context(), "queue", "1")
		require.NoError(t, err)
		assert.Equal(t, "legacy", got.Status.Owner)
		assert.Equal(t, 1, got.Status.ModificationCount)
	})
}

func TestOneOfSeveralEndsWhoseLeaseWasLost(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		putAll(t, d, plainRecords(3)...)
		running := claimAll(t, d, request("owner", 3, "queue"))
		beforeUpdate(s, func() {
			errs, err := other.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(running[1])}})
			assert.NoError(t, err)
			assert.NoError(t, errs[0])
			assert.Len(t, claimAll(t, other, request("owner", 1, "queue")), 1, "the same owner has it again")
		})
		completions := make([]driver.Completion, len(running))
		for i, r := range running {
			ended := *r
			ended.Status.Completed, ended.Status.InProgress, ended.TimeInfo.End = true, false, time.Now()
			completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: &ended}
		}
		errs, err := d.Complete(t.Context(), completions)
		require.NoError(t, err)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], driver.ErrLeaseLost)
		require.NoError(t, errs[2])
	})
}

// An operator's index refuses a second running job.
func TestAClaimOfSeveralThatAnIndexRefusesClaimsTheOthers(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		_, err := s.Collection("work.group").Indexes().CreateOne(t.Context(), mongo.IndexModel{
			Keys:    bson.D{{Key: "status.owner", Value: 1}, {Key: "type", Value: 1}},
			Options: options.Index().SetUnique(true).SetPartialFilterExpression(bson.M{"status.in_prog": true}),
		})
		require.NoError(t, err)
		putAll(t, d, plainRecord("a"), plainRecord("b"), plainRecord("c", func(r *driver.Record) { r.Type = "other" }))
		assert.Len(t, claimAll(t, d, request("owner", 3, "queue")), 2, "one of each type")
	})
}

// Indexes that are used all the time have no ended jobs.
func TestEndedJobsAreNotExamined(t *testing.T) {
	for _, grouped := range []bool{true, false} {
		inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
			d := openOn(t, s, func(o *mongodb.Options) { o.Grouped, o.SkipReportingIndexes = grouped, true })
			queue := "queue"
			if !grouped {
				queue = ""
			}
			record := func(id string) *driver.Record {
				return plainRecord(id, func(r *driver.Record) { r.Group, r.Name = queue, driver.RecordName(queue, id, r.RetryInfo) })
			}
			var ended []*driver.Record
			for i := range 50 {
				ended = append(ended, record(fmt.Sprint(i)))
			}
			putAll(t, d, ended...)
			endAll(t, d, claimAll(t, d, request("owner", 50, queue))...)
			putAll(t, d, record("runs"), record("waits"))
			require.Len(t, claimAll(t, d, request("owner", 1, queue)), 1)
			for name, call := range map[string]func() error{
				"CountTypes":     func() error { _, err := d.CountTypes(t.Context()); return err },
				"OldestReady":    func() error { _, err := d.OldestReady(t.Context(), []string{queue}, time.Now()); return err },
				"Unfinished":     func() error { _, err := d.Unfinished(t.Context()); return err },
				"Work":           func() error { _, err := d.Work(t.Context(), time.Now()); return err },
				"RecoverStale":   func() error { _, err := d.RecoverStale(t.Context()); return err },
				"CancelRequests": func() error { _, err := d.CancelRequests(t.Context(), "owner"); return err },
				"IsIdle":         func() error { _, err := d.IsIdle(t.Context(), queue); return err },
				"Claim":          func() error { _, err := d.Claim(t.Context(), request("owner", 0, queue)); return err },
			} {
				synctest.Wait()
				s.Server().ResetCosts()
				require.NoError(t, call(), name)
				assert.Less(t, s.Server().Costs().Examined.Documents, int64(10), "%s, grouped: %t", name, grouped)
			}
		})
	}
}

// A reply with a row for each queue would take several commands.
func TestSumsOfManyQueuesAreMadeByTheServer(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		var records []*driver.Record
		for i := range 300 {
			queue := fmt.Sprintf("queue %03d", i)
			records = append(records, plainRecord("job", func(r *driver.Record) {
				r.Group, r.Name = queue, driver.RecordName(queue, "job", r.RetryInfo)
			}))
		}
		putAll(t, d, records...)
		synctest.Wait()
		s.Server().ResetCosts()
		totals, err := d.SumQueues(t.Context(), 2)
		require.NoError(t, err)
		assert.Equal(t, 300, totals.Queues)
		assert.Equal(t, 300, totals.Stats.Pending)
		assert.Len(t, totals.Busiest, 2)
		assert.Equal(t, map[string]int64{"aggregate": 2}, s.Server().Costs().Commands)
	})
}

// A change that leaves the lock of a candidate as it was must not be overlooked: the end of the
// job must release the job that depends on it.
func TestAClaimOfSeveralLearnsOfAnEdgeThatWasAddedMeanwhile(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		putAll(t, d, plainRecords(3)...)
		beforeUpdate(s, func() { putAll(t, other, plainRecord("waits", dependsOn("1"))) })
		running := claimAll(t, d, request("owner", 3, "queue"))
		require.Len(t, running, 3)
		endAll(t, d, running...)
		assert.Equal(t, []string{"queue.waits"}, names(claimAll(t, d, request("owner", 3, "queue"))))
	})
}
