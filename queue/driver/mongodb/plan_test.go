package mongodb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/event"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// TestReadsUseIndexes makes a real server explain the commands of read and control calls.
// The stand-in has no plans.
func TestReadsUseIndexes(t *testing.T) {
	if serverURI == "" {
		t.Skip("AMBOY_TEST_MONGODB_URI is not set")
	}
	s := newStore(t)
	var sent []bson.Raw
	s.options.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		name, _ := e.Command.Lookup(e.CommandName).StringValueOK() // some commands have a number
		if (e.CommandName == "find" || e.CommandName == "aggregate") && name == s.jobs(true).Name() {
			s.mu.Lock()
			defer s.mu.Unlock()
			sent = append(sent, append(bson.Raw(nil), e.Command...))
		}
	}})
	s.client = s.connect()
	d := s.open()
	var records []*driver.Record
	for i := range 2000 {
		records = append(records, newRecord(t, fmt.Sprint("queue", i%10), fmt.Sprint(i)))
	}
	insert(t, d, records...)
	one := []string{"queue3"}
	queries := map[string]driver.Query{
		"all":     {},
		"queue":   {Queues: one},
		"job":     {Queues: one, ID: "3"},
		"pattern": {Queues: one, ID: "3*"},
		"latest":  {Queues: one, Latest: true},

		"jobs":                  {Queues: one, JobIDs: []string{"3", "13"}},
		"a job of any queue":    {ID: "3"},
		"jobs of any queue":     {JobIDs: []string{"3", "13"}},
		"tags":                  {Queues: one, Tags: []string{"odd", "three"}},
		"holding":               {Queues: one, Holding: true},
		"holder of a scope":     {Queues: one, Holding: true, Scope: "scope"},
		"holders of a limit":    {Queues: one, Holding: true, Scope: amboy.LimitScope("scope", 3)},
		"dependents":            {Queues: one, DependsOn: "3"},
		"retrying of any queue": {States: []amboy.JobState{amboy.StateRetrying}},
	}
	for _, state := range amboy.JobStates() {
		queries[string(state)] = driver.Query{Queues: one, States: []amboy.JobState{state}}
	}
	calls := map[string]func() error{
		"Get": func() error {
			_, err := d.Get(t.Context(), "queue3", "3")
			return err
		},
		"Attempts": func() error {
			_, err := d.Attempts(t.Context(), "queue3", "3")
			return err
		},
		"Stats": func() error {
			_, err := d.Stats(t.Context(), "queue3")
			return err
		},
		"Queues": func() error {
			_, err := d.Queues(t.Context(), driver.QueueRequest{})
			return err
		},
		"Queues of a page": func() error {
			_, err := d.Queues(t.Context(), driver.QueueRequest{From: "queue2", Limit: 2})
			return err
		},
		"SumQueues": func() error {
			_, err := d.SumQueues(t.Context(), 2)
			return err
		},
		"OldestReady": func() error {
			_, err := d.OldestReady(t.Context(), []string{"queue2", "queue3"}, time.Now())
			return err
		},
		"Unfinished": func() error {
			_, err := d.Unfinished(t.Context())
			return err
		},
		"CancelRequests": func() error {
			_, err := d.CancelRequests(t.Context(), "owner")
			return err
		},
		"Forget": func() error {
			_, err := d.Forget(t.Context(), time.Now(), 10)
			return err
		},
	}
	for name, q := range queries {
		calls["Find "+name] = func() error {
			_, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10})
			return err
		}
		if name == "all" {
			continue // it counts any ten documents
		}
		calls["Count "+name] = func() error {
			_, err := d.Count(t.Context(), q, 10)
			return err
		}
	}
	for name, call := range calls {
		s.mu.Lock()
		sent = nil
		s.mu.Unlock()
		require.NoError(t, call(), name)
		s.mu.Lock()
		commands := sent
		s.mu.Unlock()
		require.NotEmpty(t, commands, name)
		for _, command := range commands {
			assert.NotContains(t, s.explain(command, "queryPlanner").String(), "COLLSCAN", "%s: %s", name, command)
		}
	}
}

// TestWorkAndClaimsOfOneQueueReadTheJobsOfAll makes a real server explain what an idle process
// reads beside many jobs that wait for a time, many that run, and many expired jobs of a queue that no
// process claims from.
func TestWorkAndClaimsOfOneQueueReadTheJobsOfAll(t *testing.T) {
	if serverURI == "" {
		t.Skip("AMBOY_TEST_MONGODB_URI is not set")
	}
	s := newStore(t)
	var sent []bson.Raw
	s.options.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if name, _ := e.Command.Lookup(e.CommandName).StringValueOK(); e.CommandName == "aggregate" && name == s.jobs(true).Name() {
			s.mu.Lock()
			defer s.mu.Unlock()
			sent = append(sent, append(bson.Raw(nil), e.Command...))
		}
	}})
	s.client = s.connect()
	d := s.open()
	const many, queues = 2000, 1000
	var records []*driver.Record
	for i := range many {
		old, later := plainRecord(fmt.Sprint("expires", i)), plainRecord(fmt.Sprint("later", i))
		old.Group, later.Group = "old", "later"
		old.Name, later.Name = driver.RecordName("old", old.JobID(), old.RetryInfo), driver.RecordName("later", later.JobID(), later.RetryInfo)
		old.TimeInfo.DispatchBy, later.TimeInfo.WaitUntil = time.Now().Add(time.Millisecond), time.Now().Add(time.Hour)
		runs := plainRecord(fmt.Sprint("runs", i))
		runs.Group = fmt.Sprint("runs", i%queues)
		runs.Name = driver.RecordName(runs.Group, runs.JobID(), runs.RetryInfo)
		records = append(records, old, later, runs)
	}
	putAll(t, d, records...)
	inAll := request("other", many, queuesNamed("runs", queues)...)
	inAll.LeaseTime = time.Hour
	require.Len(t, claimAll(t, d, inAll), many)
	time.Sleep(10 * time.Millisecond) // until they have expired
	names := append(queuesNamed("queue", queues), "new", "later")
	calls := map[string]func(){
		"Work": func() {
			work, err := d.Work(t.Context(), time.Now())
			require.NoError(t, err)
			assert.Equal(t, []driver.QueueWork{{Queue: "old", Ready: true, Expired: true}}, work.Queues)
		},
		"Survey": func() {
			work, staleIn, err := d.Survey(t.Context(), time.Now(), time.Second)
			require.NoError(t, err)
			assert.Equal(t, []driver.QueueWork{{Queue: "old", Ready: true, Expired: true}}, work.Queues)
			assert.Equal(t, time.Second, staleIn)
		},
		"a claim of one queue":   func() { assert.Empty(t, claimAll(t, d, request("owner", 1, "new"))) },
		"a claim of many queues": func() { assert.Empty(t, claimAll(t, d, request("owner", 1, names...))) },
	}
	for name, call := range calls {
		s.mu.Lock()
		sent = nil
		s.mu.Unlock()
		call()
		s.mu.Lock()
		commands := sent
		s.mu.Unlock()
		for _, command := range commands {
			for _, pipeline := range branchesOf(t, command) {
				assert.LessOrEqual(t, s.examined(pipeline), int64(20), "%s: %s", name, pipeline)
			}
		}
	}
}

// queuesNamed returns the names of n queues.
func queuesNamed(name string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(name, i)
	}
	return names
}

// branchesOf returns the pipelines that the stages $unionWith of a command join, because some
// servers can't explain them together.
func branchesOf(t *testing.T, command bson.Raw) []bson.A {
	t.Helper()
	var sent struct {
		Pipeline bson.A `bson:"pipeline"`
	}
	require.NoError(t, bson.Unmarshal(command, &sent))
	own, branches := bson.A{}, []bson.A(nil)
	for _, stage := range sent.Pipeline {
		of, _ := stage.(bson.D)
		if of[0].Key != "$unionWith" {
			own = append(own, stage)
			continue
		}
		with, _ := of[0].Value.(bson.D)
		if name, _ := with[0].Value.(string); strings.HasSuffix(name, ".control") {
			continue
		}
		pipeline, _ := with[1].Value.(bson.A)
		branches = append(branches, pipeline)
	}
	return append(branches, own)
}

// examined returns the number of documents that a pipeline reads.
func (s *store) examined(pipeline bson.A) int64 {
	s.Helper()
	plan, err := s.client.Database(s.db).RunCommand(s.Context(), bson.D{
		{Key: "explain", Value: bson.D{{Key: "aggregate", Value: s.jobs(true).Name()}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{}}}},
		{Key: "verbosity", Value: "executionStats"},
	}).Raw()
	require.NoError(s, err)
	stats, err := plan.LookupErr("executionStats", "totalDocsExamined")
	if err != nil {
		stages, listErr := plan.Lookup("stages").Array().Values()
		require.NoError(s, listErr)
		stats = stages[0].Document().Lookup("$cursor", "executionStats", "totalDocsExamined")
	}
	n, ok := stats.AsInt64OK()
	require.True(s, ok, "%s", plan)
	return n
}

// TestPlansExamineFewDocuments makes a real server run queries that select a few of many jobs, and
// explain what it examined for them.
func TestPlansExamineFewDocuments(t *testing.T) {
	if serverURI == "" {
		t.Skip("AMBOY_TEST_MONGODB_URI is not set")
	}
	s := newStore(t)
	var sent []bson.Raw
	s.options.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if name, _ := e.Command.Lookup(e.CommandName).StringValueOK(); name == s.jobs(true).Name() && e.CommandName == "find" {
			sent = append(sent, slices.Clone(e.Command))
		}
	}})
	s.client = s.connect()
	d := s.open()
	putAll(t, d, plainRecord("failed", takesScope))
	for _, r := range claimAll(t, d, request("owner", 1, "queue")) {
		r.Status.AddError(errors.New("it failed"), 0, time.Now())
		endAll(t, d, r)
	}
	putAll(t, d, plainRecords(5000)...)
	endAll(t, d, claimAll(t, d, request("owner", 1000, "queue"))...)
	holders := []*driver.Record{plainRecord("holder", func(r *driver.Record) {
		r.RequiredScopes, r.EnqueueScopes = []string{"held"}, []string{"held"}
	})}
	for i := range 1000 {
		holders = append(holders, plainRecord(fmt.Sprint("waits", i), func(r *driver.Record) {
			own := fmt.Sprint("own", i)
			r.RequiredScopes, r.EnqueueScopes = []string{own, "held"}, []string{own}
		}))
	}
	putAll(t, d, holders...)
	time.Sleep(time.Second)
	began := time.Now()
	endAll(t, d, claimAll(t, d, request("owner", 1, "queue"))...)
	ended := driver.TimeRange{From: began}
	few := func(what string, call func()) {
		sent = nil
		call()
		for _, command := range slices.Clone(sent) {
			var plan struct {
				Stats struct {
					Documents int `bson:"totalDocsExamined"`
				} `bson:"executionStats"`
			}
			explained := s.explain(command, "executionStats")
			require.NoError(t, bson.Unmarshal(explained, &plan))
			assert.Less(t, plan.Stats.Documents, 20, "%s: %s", what, explained)
		}
	}
	one, ids := []string{"queue"}, []string{"4321"}
	for name, q := range map[string]driver.Query{
		"ID":                       {Queues: one, ID: ids[0]},
		"ID in any queue":          {ID: ids[0]},
		"JobIDs":                   {Queues: one, JobIDs: ids},
		"JobIDs of several queues": {Queues: []string{"queue", "other"}, JobIDs: ids},
		"JobIDs of a state":        {Queues: one, JobIDs: ids, States: []amboy.JobState{amboy.StatePending}, Latest: true},
		"JobIDs of states":         {Queues: one, JobIDs: ids, States: []amboy.JobState{amboy.StatePending, amboy.StateScheduled, amboy.StateFailed}},
		"end":                      {Queues: one, Ended: ended},
		"holder of a scope":        {Queues: one, Holding: true, Scope: "held", Latest: true},
		"end in any queue":         {Ended: ended},
		"end of states":            {Queues: one, Ended: ended, States: []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed}},
	} {
		few(name, func() {
			page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10, Newest: true})
			require.NoError(t, err, name)
			assert.Len(t, page.Records, 1, name)
		})
	}
	few("dry run of a restart", func() {
		acted, err := d.Act(t.Context(), driver.ActRequest{
			Query:  driver.Query{Queues: one, JobIDs: []string{"failed"}},
			Action: driver.Action{Kind: driver.Restart}, Limit: 1, DryRun: true,
		})
		require.NoError(t, err)
		assert.Equal(t, 1, acted.Done)
	})
}

// explain makes the server explain a command.
func (s *store) explain(command bson.Raw, verbosity string) bson.Raw {
	s.Helper()
	var explained bson.D
	elements, err := command.Elements()
	require.NoError(s, err)
	for _, e := range elements {
		switch e.Key() {
		case "lsid", "$db", "$clusterTime", "txnNumber", "$readPreference", "readConcern", "maxTimeMS":
		default:
			explained = append(explained, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	plan, err := s.client.Database(s.db).RunCommand(s.Context(), bson.D{
		{Key: "explain", Value: explained}, {Key: "verbosity", Value: verbosity},
	}).Raw()
	require.NoError(s, err)
	return plan
}

// The pages of what documents wait for are complete only if the server reads them in the order of the
// index, and cost little only if it does not sort.
func TestASweepReadsWhatDocumentsWaitForInTheOrderOfAnIndex(t *testing.T) {
	if serverURI == "" {
		t.Skip("AMBOY_TEST_MONGODB_URI is not set")
	}
	s := newStore(t)
	finds := map[string][]bson.Raw{}
	s.options.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		hint, isHinted := e.Command.Lookup("hint").DocumentOK()
		if e.CommandName == "find" && isHinted {
			s.mu.Lock()
			defer s.mu.Unlock()
			finds[hint.String()] = append(finds[hint.String()], append(bson.Raw(nil), e.Command...))
		}
	}})
	s.client = s.connect()
	d := s.open()
	records := []*driver.Record{plainRecord("target"), plainRecord("holder", takesScope)}
	for i := range 1100 {
		records = append(records, plainRecord(fmt.Sprint("waits", i), dependsOn("target")))
	}
	for i := range 1100 {
		records = append(records, plainRecord(fmt.Sprint("wants", i), wantsScope))
	}
	putAll(t, d, records...)
	require.NotEmpty(t, claimAll(t, d, request("owner", 2, "queue"))) // from then on it sweeps
	read := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, commands := range finds {
			n += min(len(commands), 3) // the first documents, then those after them in the queue, and in later ones
		}
		return n == 6
	}
	require.Eventually(t, read, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, d.Close(t.Context()))
	for hint, commands := range finds {
		for _, command := range commands {
			plan := s.explain(command, "queryPlanner").String()
			assert.Contains(t, plan, `"IXSCAN"`, hint)
			assert.NotContains(t, plan, `"SORT"`, hint)
			if strings.Contains(hint, "line.scope") {
				assert.NotContains(t, plan, `"FETCH"`, "the index has all that is read")
			}
		}
	}
}
