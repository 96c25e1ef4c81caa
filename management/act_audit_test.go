package management_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
)

// parkAll parks the jobs of a queue, one at a time, each page by the next of the actors.
func parkAll(t *testing.T, i management.Inspector, queue string, actors ...string) {
	t.Helper()
	req := management.ActRequest{
		Action: management.Action{Kind: management.Park, Reason: "later"}, Filter: management.JobFilter{Queues: []string{queue}}, Limit: 1,
	}
	for n := 0; ; n++ {
		acted, err := i.Act(management.WithActor(t.Context(), actors[min(n, len(actors)-1)]), req)
		require.NoError(t, err)
		require.Less(t, n, 1000)
		if req.Cursor = acted.Next; req.Cursor == "" {
			return
		}
	}
}

// One action on many jobs had an entry for each page of it. That of a million jobs pushed the whole
// history of its queue out of the audit list, and the timeline of a job had it up to ten times.
func TestAnActionHadAnEntryForEachOfItsPages(t *testing.T) {
	i := newTwoTenants(t, newMemory(t), 7)
	start := time.Now()
	parkAll(t, i, "theirs", "ada")
	for _, filter := range []management.AuditFilter{{}, {Queues: []string{"theirs"}}} {
		found, err := i.Audit(t.Context(), filter, management.PageRequest{})
		require.NoError(t, err)
		require.Len(t, found.Entries, 1)
		entry := found.Entries[0]
		assert.WithinRange(t, entry.Time, start.Add(-time.Second), time.Now())
		assert.JSONEq(t, `{"action":"park","reason":"later","filter":{"queues":["theirs"]},"limit":1}`, entry.Detail)
		entry.Time, entry.Detail = time.Time{}, ""
		assert.Equal(t, management.AuditEntry{Actor: "ada", What: "park", Queue: "theirs", Done: 7}, entry)
	}
	j, err := i.Job(t.Context(), "theirs", "other0")
	require.NoError(t, err)
	var acted []management.Moment
	for _, m := range j.Timeline {
		if m.Actor != "" {
			acted = append(acted, m)
		}
	}
	require.Len(t, acted, 1)
	assert.Equal(t, "with 7 jobs that a filter selected", acted[0].Detail)

	parkAll(t, i, "theirs", "ada")
	found, err := i.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{})
	require.NoError(t, err)
	require.Len(t, found.Entries, 2, "another action")
	assert.Equal(t, 7, found.Entries[0].Skipped)
}

// An actor who continues the action of another actor gets a separate entry.
func TestAnActionThatTwoActorsDid(t *testing.T) {
	i := newTwoTenants(t, newMemory(t), 3)
	parkAll(t, i, "theirs", "ada", "bob", "ada")
	found, err := i.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{})
	require.NoError(t, err)
	done := map[string]int{}
	for _, entry := range found.Entries {
		done[entry.Actor] += entry.Done
	}
	assert.Equal(t, map[string]int{"ada": 2, "bob": 1}, done, fmt.Sprint(found.Entries))
}

// An actor who keeps a cursor can't act under an entry of long ago.
func TestAttackAnActionIsRecordedAsAPartOfAnOldOne(t *testing.T) {
	inMemory(t, func(p *patient) {
		req := management.ActRequest{Action: management.Action{Kind: management.Park}, All: true, Limit: 1}
		first, err := p.inspector.Act(p.Context(), req)
		require.NoError(p, err)
		time.Sleep(24 * time.Hour) // fake time
		req.Cursor = first.Next
		for range 2 {
			acted, errAct := p.inspector.Act(p.Context(), req)
			require.NoError(p, errAct)
			req.Cursor = acted.Next
		}
		found, err := p.inspector.Audit(p.Context(), management.AuditFilter{What: []string{"park"}}, management.PageRequest{})
		require.NoError(p, err)
		require.Len(p, found.Entries, 2)
		assert.WithinDuration(p, time.Now(), found.Entries[0].Time, time.Minute)
		assert.Equal(p, 2, found.Entries[0].Done+found.Entries[0].Skipped)
		assert.Equal(p, 1, found.Entries[1].Done+found.Entries[1].Skipped)
	})
}
