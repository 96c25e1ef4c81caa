package management_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
)

// meanwhile is a driver that calls do after each list of jobs was read.
type meanwhile struct {
	driver.Driver
	do func()
}

func (m meanwhile) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	found, err := m.Driver.Find(ctx, q, page)
	m.do()
	return found, err
}

// An operator who cancels the jobs that have not started does not cancel one that starts before the
// action comes to it.
func TestAnActionOnPendingJobsChangedOneThatHadStartedMeanwhile(t *testing.T) {
	for _, kind := range []management.ActionKind{management.Cancel, management.Complete, management.Prioritize} {
		t.Run(string(kind), func(t *testing.T) {
			inMemory(t, func(p *patient) {
				claim := func() {
					claimed, err := p.Claim(p.Context(), driver.ClaimRequest{
						Owner: process, Queues: []driver.Demand{{Queue: ill, Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Hour,
					})
					require.NoError(p, err)
					require.Len(p, claimed.Records, 1)
					require.Equal(p, "pending", claimed.Records[0].JobID())
				}
				i, err := management.NewStoreInspector(meanwhile{p.Driver, claim})
				require.NoError(p, err)
				action := management.Action{Kind: kind}
				if kind == management.Prioritize {
					action.Priority = new(7)
				}
				acted, err := i.Act(p.Context(), management.ActRequest{
					Action: action, Limit: 10,
					Filter: management.JobFilter{States: []amboy.JobState{amboy.StateScheduled, amboy.StatePending}, IDs: []string{"pending"}},
				})
				require.NoError(p, err)
				assert.Equal(p, management.Acted{Skipped: 1}, acted)
				j, err := p.inspector.Job(p.Context(), ill, "pending")
				require.NoError(p, err)
				assert.Equal(p, amboy.StateRunning, j.State)
				assert.False(p, j.CancelRequested)
				assert.Zero(p, j.Priority)
			})
		})
	}
}

// unreadable is a driver whose jobs have changed when they are completed, and can't be read again.
type unreadable struct{ driver.Driver }

var errUnreadable = errors.New("the store does not answer")

func (unreadable) Complete(_ context.Context, completions []driver.Completion) ([]error, error) {
	return slices.Repeat([]error{amboy.ErrLeaseLost}, len(completions)), nil
}

func (unreadable) Get(context.Context, string, string) (*driver.Record, error) {
	return nil, errUnreadable
}

// The error was to name the job of the record that had not been read.
func TestABulkActionPanickedIfAJobThatHadChangedCouldNotBeRead(t *testing.T) {
	inMemory(t, func(p *patient) {
		i, err := management.NewStoreInspector(unreadable{p.Driver})
		require.NoError(p, err)
		_, err = i.Act(p.Context(), management.ActRequest{
			Action: management.Action{Kind: management.Complete}, Limit: 10, Filter: management.JobFilter{IDs: []string{"pending"}},
		})
		require.ErrorIs(p, err, errUnreadable)
		require.ErrorContains(p, err, `job "pending" of queue "mail"`)
	})
}
