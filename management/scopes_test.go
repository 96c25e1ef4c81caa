package management_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// needScopes makes a record need scopes when it starts.
func needScopes(r *driver.Record, scopes ...string) { r.RequiredScopes = scopes }

func (p *patient) scopes() map[string]management.Count {
	p.Helper()
	page, err := p.inspector.Scopes(p.Context(), management.ScopeFilter{}, management.PageRequest{Limit: 100})
	require.NoError(p, err)
	waiting := map[string]management.Count{}
	for _, s := range page.Scopes {
		waiting[s.Name] = s.Waiting
	}
	return waiting
}

// A page of many scopes took many times as long as a page of one.
func TestAListOfScopesReadTheBlockedJobsForEachScope(t *testing.T) {
	d := &countingFinds{Driver: newMemory(t)}
	p := newPatient(t, d)
	const scopes, waiters = 30, 3
	for i := range scopes {
		p.insert(fmt.Sprint("holder", i), func(r *driver.Record) { takeScopes(r, fmt.Sprint("scope", i)) })
		for n := range waiters {
			p.insert(fmt.Sprint("waits", i, " ", n), func(r *driver.Record) { needScopes(r, fmt.Sprint("scope", i)) })
		}
	}
	p.insert("both", func(r *driver.Record) { needScopes(r, "scope0", "scope1") })
	d.calls = 0
	waiting := p.scopes()
	assert.Less(t, d.calls, 10)
	require.Len(t, waiting, scopes)
	for name, count := range waiting {
		want := waiters
		if name == "scope0" || name == "scope1" {
			want++
		}
		assert.Equal(t, management.Count{Count: want}, count, name)
	}
}

func TestAJobDoesNotWaitForAScopeThatItHolds(t *testing.T) {
	p := newPatient(t, newMemory(t))
	p.insert("holder", func(r *driver.Record) { takeScopes(r, "free") })
	p.insert("blocked", func(r *driver.Record) {
		takeScopes(r, "own")
		needScopes(r, "own", "free")
	})
	assert.Equal(t, map[string]management.Count{"own": {}, "free": {Count: 1}}, p.scopes())
}

func TestTheJobsThatWaitForAScopeAreCountedUpToALimit(t *testing.T) {
	store, err := memory.New(memory.Options{KeepFinished: 100})
	require.NoError(t, err)
	p := newPatient(t, store)
	insert := func(id string) {
		p.insert(id, func(r *driver.Record) { needScopes(r, "ledger") })
	}
	p.insert("holder", func(r *driver.Record) { takeScopes(r, "ledger") })
	for i := range management.MaxLimit {
		insert(fmt.Sprint("waits", i))
	}
	assert.Equal(t, management.Count{Count: management.MaxLimit}, p.scopes()["ledger"])
	insert("one more")
	assert.Equal(t, management.Count{Count: management.MaxLimit, More: true}, p.scopes()["ledger"])
}

// slowPages is a store that needs as long as it may for the second page of blocked jobs.
type slowPages struct{ driver.Driver }

func (d slowPages) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	if page.Brief && page.After != "" {
		<-ctx.Done()
		return driver.Page{}, ctx.Err()
	}
	page.Limit = min(page.Limit, 10)
	return d.Driver.Find(ctx, q, page)
}

func TestTheCountOfJobsThatWaitForScopesEndsAfterATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t, slowPages{newMemory(t)})
		p.insert("holder", func(r *driver.Record) { takeScopes(r, "ledger") })
		for i := range 20 {
			p.insert(fmt.Sprint("waits", i), func(r *driver.Record) { needScopes(r, "ledger") })
		}
		p.insertIn("sales", "holder", func(r *driver.Record) { takeScopes(r, "journal") })
		p.insertIn("sales", "waits", func(r *driver.Record) { needScopes(r, "journal") })
		began := time.Now()
		// The queue sales comes after the slow one.
		assert.Equal(t, map[string]management.Count{"ledger": {Count: 10, More: true}, "journal": {More: true}}, p.scopes())
		assert.Equal(t, management.MaxCountTime, time.Since(began))
	})
}
