package mongodb_test

import (
	"context"
	"fmt"
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
			assert.NotContains(t, s.explain(command), "COLLSCAN", "%s: %s", name, command)
		}
	}
}

// explain returns the plan of a command as text.
func (s *store) explain(command bson.Raw) string {
	s.Helper()
	var explained bson.D
	elements, err := command.Elements()
	require.NoError(s, err)
	for _, e := range elements {
		switch e.Key() {
		case "lsid", "$db", "$clusterTime", "txnNumber", "$readPreference", "readConcern":
		default:
			explained = append(explained, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	plan, err := s.client.Database(s.db).RunCommand(s.Context(), bson.D{
		{Key: "explain", Value: explained}, {Key: "verbosity", Value: "queryPlanner"},
	}).Raw()
	require.NoError(s, err)
	return plan.String()
}
