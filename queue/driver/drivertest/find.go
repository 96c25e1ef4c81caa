package drivertest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

var findRules = []rule{
	{"states are distinguished", findStates},
	{"records come in the order in which they were added", findOrder},
	{"each field selects, and several fields are ANDed", findFields},
	{"pattern characters match themselves, except * and ?", findPatterns},
	{"a pattern with many stars takes no longer than one with few", findManyStars},
	{"an error is found by a literal part, whatever its case", findErrors},
	{"parts of IDs, types and tags are found, whatever their case", findParts},
	{"a time range includes its beginning and excludes its end", findTimes},
	{"Latest excludes replaced attempts", findLatest},
	{"jobs are found by their literal IDs", findJobIDs},
	{"several tags must all match", findTags},
	{"a text that a store can't keep selects nothing", findUnstorable},
	{"records that hold scopes are found", findHolding},
	{"the holders of a scope are found among records that hold others", findHolders},
	{"records are found by a job that they depend on, even if either has ended", findDependents},
	{"a query for dependents needs a queue", findDependentsQueue},
	{"a cursor that the driver did not issue is refused", findBadCursor},
	{"pages are no larger than the limit and contain each record once", findPages},
	{"a record that stays is on one page while others are added and removed", findWhileChanging},
	{"Newest returns the newest records first", findNewest},
	{"a brief page has the same records, with their last errors", findBrief},
	{"a page has the records with wanted bodies, however many others are between", findBodies},
	{"a limit must be at least 1", findLimit},
}

var countRules = []rule{
	{"Count agrees with Find", countFound},
	{"counting stops at the limit", countLimit},
}

// everyState puts a job in each state, whose name is its ID, and further jobs in some.
func everyState(f *fixture) map[string]amboy.JobState {
	f.Helper()
	states := map[string]amboy.JobState{
		"scope": amboy.StateBlocked, "edge": amboy.StateBlocked, "postponed": amboy.StateBlocked,
		"late": amboy.StateExpired, "overdue edge": amboy.StateExpired,
	}
	order := []amboy.JobState{
		amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired,
		amboy.StateRetrying, amboy.StateParked,
	}
	for _, state := range order {
		f.insert(spec{id: string(state), retryable: state == amboy.StateRetrying})
		states[string(state)] = state
	}
	f.insert(spec{id: "postponed"}, spec{id: "running", scopes: []string{"held"}})
	running := f.claim(10)
	require.Len(f, running, len(order)+2)
	for i, state := range order {
		if state != amboy.StateParked {
			f.end(running[i], state)
		}
	}
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[len(order)-1]), Park: true})
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[len(order)]), NotBefore: f.after(1)})
	f.insert(
		spec{id: "scope", scopes: []string{"held"}},
		spec{id: "edge", edges: []string{"running"}},
		spec{id: "scheduled", waitUntil: f.after(1)},
		spec{id: "pending"},
		spec{id: "late", dispatchBy: f.after(-1)},
		spec{id: "overdue edge", dispatchBy: f.after(-1), edges: []string{"running"}},
	)
	states["running"], states["scheduled"], states["pending"] = amboy.StateRunning, amboy.StateScheduled, amboy.StatePending
	return states
}

func findStates(f *fixture) {
	states := everyState(f)
	for id, state := range states {
		f.hasState(id, state)
	}
	listed := 0
	for _, state := range amboy.JobStates() {
		records := f.list(state)
		assert.NotEmpty(f, records, "in state %s", state)
		for _, r := range records {
			listed++
			assert.Equal(f, state, states[r.JobID()], "job %q is listed as %s", r.JobID(), state)
			assert.Equal(f, state, stateOf(r), "job %q is listed as %s", r.JobID(), state)
		}
	}
	assert.Equal(f, len(states), listed, "each job is listed in one state")
	assert.Len(f, f.list(), len(states))
}

func findOrder(f *fixture) {
	everyState(f)
	some := f.list(amboy.StateRunning, amboy.StateParked, amboy.StateFailed, amboy.StateExpired)
	assert.Equal(f, []string{"failed", "expired", "parked", "running", "late", "overdue edge"}, jobIDs(some))
	assert.Equal(f, []string{
		"succeeded", "failed", "canceled", "expired", "retrying", "parked", "postponed", "running",
		"scope", "edge", "scheduled", "pending", "late", "overdue edge",
	}, jobIDs(f.list()))
}

// findFields selects records that differ from "it" in one field each.
func findFields(f *fixture) {
	it := spec{
		id:            "it",
		typeName:      otherJobTypeName,
		tags:          []string{"green", "blue"},
		scopes:        []string{"disk", "net"},
		enqueueScopes: []string{"net"},
		created:       f.after(-5),
		waitUntil:     f.after(5),
	}
	queries := map[string]driver.Query{
		"queue":   {Queues: []string{f.queue}},
		"ID":      {ID: "it*"},
		"type":    {Types: []string{otherJobTypeName}},
		"tag":     {Tags: []string{"blue"}},
		"scope":   {Scope: "disk"},
		"created": {Created: driver.TimeRange{To: f.after(-4)}},
		"due":     {Due: driver.TimeRange{From: f.after(4)}},
		"state":   {States: []amboy.JobState{amboy.StateScheduled}},
	}
	f.insert(it)
	for field := range queries {
		in, other := f, it
		other.id, other.scopes, other.enqueueScopes = "it differs in "+field, []string{"disk", field}, nil
		switch field {
		case "queue":
			in = f.in("other")
		case "ID":
			other.id = "another"
		case "type":
			other.typeName = ""
		case "tag":
			other.tags = []string{"bluegreen", "green"}
		case "scope":
			other.scopes = []string{"disk2", "net"}
		case "created":
			other.created = f.after(-3)
		case "due":
			other.waitUntil = f.after(3)
		case "state":
			in.insert(other)
			in.park(other.id)
			continue
		}
		in.insert(other)
	}
	var all driver.Query
	for field, q := range queries {
		found := jobIDs(f.find(q))
		for other := range queries {
			id := "it differs in " + other
			if other == "ID" {
				id = "another"
			}
			require.Equal(f, other != field, slices.Contains(found, id), "%s selects %q", field, id)
		}
		require.Contains(f, found, "it", "%s selects it", field)
		addTo(&all, q)
		require.Len(f, f.find(q), len(queries))
	}
	require.Equal(f, []string{"it"}, jobIDs(f.find(all)))
	require.Len(f, f.find(driver.Query{}), len(queries)+1)
	require.Len(f, f.find(driver.Query{Queues: []string{"other", f.queue}}), len(queries)+1)
	require.Len(f, f.find(driver.Query{Types: []string{otherJobTypeName, jobTypeName}}), len(queries)+1)
	for name, none := range map[string]driver.Query{
		"queue": {Queues: []string{"unknown"}},
		"type":  {Types: []string{"unknown"}},
		"job":   {JobIDs: []string{"unknown"}},
		"tag":   {Tags: []string{"blu"}},
		"scope": {Scope: "dis"},
		"state": {States: []amboy.JobState{amboy.StateRunning}},
	} {
		require.Empty(f, f.find(none), name)
	}
}

// addTo adds the conditions of a query to another one.
func addTo(all *driver.Query, q driver.Query) {
	all.Queues = append(all.Queues, q.Queues...)
	all.States = append(all.States, q.States...)
	all.Types = append(all.Types, q.Types...)
	all.ID, all.Scope = all.ID+q.ID, all.Scope+q.Scope
	all.Tags = append(all.Tags, q.Tags...)
	if !q.Created.IsZero() {
		all.Created = q.Created
	}
	if !q.Due.IsZero() {
		all.Due = q.Due
	}
}

// matches reports whether a text matches a pattern.
func matches(pattern, text []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(text) == 0
	case pattern[0] == '*':
		return matches(pattern[1:], text) || (len(text) > 0 && matches(pattern, text[1:]))
	case len(text) == 0:
		return false
	default:
		return (pattern[0] == '?' || pattern[0] == text[0]) && matches(pattern[1:], text[1:])
	}
}

func findPatterns(f *fixture) {
	ids := []string{
		"a", "b", "ab", "A", "aXb", "axb", "a%b", "a_b", "a[b]", "a]b", "[ab]", "a*b", "a?b", `a\b`, `a\*b`, "a.b", "a-b", "^a$",
		"a'b", `a"b`, "a\nb", "a b", " a", "100%", "é", "éé", "e", "{a,b}", "a|b", "!a", "attempt-0.a",
	}
	patterns := append(slices.Clone(ids),
		"*", "?", "??", "???", "a*", "*b", "*a*", "a?b", "a[*", "[a-b]*", "[!b]", "[^b]", "a[xX]b", "%", "_", "%b", "a%", "*%*", "*[*",
		`a\?b`, `\*`, "A*", "é*", "é?", "a**b", "*?*?*", ".*", "a.*", "{a,b}", "*.a", "unknown", "queue.a", "queue*",
	)
	var specs []spec
	for i, id := range ids {
		specs = append(specs, spec{id: id, retryable: i%4 == 0 && id != "a"})
	}
	f.insert(specs...)
	for _, pattern := range patterns {
		var want []string
		for _, id := range ids {
			if matches([]rune(pattern), []rune(id)) {
				want = append(want, id)
			}
		}
		require.ElementsMatch(f, want, jobIDs(f.find(driver.Query{ID: pattern})), "the pattern %q", pattern)
	}
}

// findManyStars uses patterns for which matching by backtracking takes practically
// forever.
func findManyStars(f *fixture) {
	long := strings.Repeat("a", 1000)
	f.insert(spec{id: long}, spec{id: long[1:] + "b"}, spec{id: "other"})
	for pattern, want := range map[string][]string{
		strings.Repeat("*a", 10) + "*b": {long[1:] + "b"},
		strings.Repeat("a*", 10) + "c":  nil,
		strings.Repeat("*a?", 10) + "*": {long, long[1:] + "b"},
		"*o*t*h*e*r*":                   {"other"},
		"o*t*e*h*r":                     nil,
	} {
		require.ElementsMatch(f, want, jobIDs(f.find(driver.Query{ID: pattern})), "the pattern %q", pattern)
		n, err := f.driver.Count(f.ctx, driver.Query{ID: pattern}, 10)
		require.NoError(f, err)
		require.Len(f, want, n, "the pattern %q", pattern)
	}
}

func findErrors(f *fixture) {
	errs := []string{"", "disk full", "100% full", "a_b", "Disk full", `C:\disk`, "it's [full]", "full*"}
	for i, message := range errs {
		id := fmt.Sprint(i)
		f.insert(spec{id: id})
		r := f.claimOne(id)
		e := ended(r, amboy.StateFailed)
		e.Status.Errors = []string{"the first error of every job", message}
		if message == "" {
			e = ended(r, amboy.StateSucceeded)
		}
		if i == 1 {
			// What a legacy retry handler has added is not the job's own.
			e.Status.Errors = append(e.Status.Errors, "attempt 1 to enqueue retrying job: unknown")
		}
		require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	}
	for _, part := range append(errs[1:], "full", "Disk", "DISK FULL", "A_b", "%", "_", "[", "*", "?", `\`, "'", "0% f", "the first", "unknown") {
		var want []string
		for i, message := range errs {
			if strings.Contains(strings.ToLower(message), strings.ToLower(part)) {
				want = append(want, fmt.Sprint(i))
			}
		}
		require.Equal(f, want, slices.Clip(idsOrNil(f.find(driver.Query{Error: part}))), "the error %q", part)
	}
}

// findParts searches for parts of IDs, types and tags.
func findParts(f *fixture) {
	f.insert(
		spec{id: "Invoice-7/é", typeName: otherJobTypeName, tags: []string{"customer:Ann", "x"}},
		spec{id: "invoice-8/É", retryable: true},
		spec{id: "100%_[a]*?", tags: []string{`quoted "B"`, "É"}},
	)
	for _, test := range []struct {
		query driver.Query
		want  []string
	}{
		{driver.Query{IDPart: "INVOICE-"}, []string{"Invoice-7/é", "invoice-8/É"}},
		{driver.Query{IDPart: "e-7"}, []string{"Invoice-7/é"}},
		{driver.Query{IDPart: "/é"}, []string{"Invoice-7/é"}},
		{driver.Query{IDPart: "%_[A]*?"}, []string{"100%_[a]*?"}},
		{driver.Query{IDPart: "*"}, []string{"100%_[a]*?"}},
		{driver.Query{IDPart: f.queue + "."}, nil},
		{driver.Query{IDPart: "attempt-"}, nil},
		{driver.Query{TypePart: "DriverTest"}, []string{"Invoice-7/é", "invoice-8/É", "100%_[a]*?"}},
		{driver.Query{TypePart: "T-OTHER"}, []string{"Invoice-7/é"}},
		{driver.Query{TypePart: "t_o"}, nil},
		{driver.Query{TagPart: "ANN"}, []string{"Invoice-7/é"}},
		{driver.Query{TagPart: `d "b`}, []string{"100%_[a]*?"}},
		{driver.Query{TagPart: "É"}, []string{"100%_[a]*?"}},
		{driver.Query{TagPart: "é"}, nil},
		{driver.Query{TagPart: "ann\",\"x"}, nil},
		{driver.Query{TypePart: "test", IDPart: "8"}, []string{"invoice-8/É"}},
		{driver.Query{IDPart: "invoice", Queues: []string{f.queue}, Latest: true}, []string{"Invoice-7/é", "invoice-8/É"}},
		{driver.Query{IDPart: "invoice", Queues: []string{"none"}}, nil},
		{driver.Query{IDPart: "\xff"}, nil},
	} {
		require.Equal(f, test.want, slices.Clip(idsOrNil(f.find(test.query))), "%+v", test.query)
		require.Equal(f, len(test.want), f.countOf(test.query, 10), "%+v", test.query)
	}
}

// idsOrNil returns the IDs of the jobs of records, or nil if there are none.
func idsOrNil(records []*driver.Record) []string {
	if len(records) == 0 {
		return nil
	}
	return jobIDs(records)
}

func findTimes(f *fixture) {
	// Job "1" was put, is due, and ended an hour after the start, and so on.
	for hour := 1; hour <= 3; hour++ {
		id, at := fmt.Sprint(hour), f.after(float64(hour))
		f.insert(spec{id: id, created: at, waitUntil: at})
		r := f.claimAt(float64(hour)+0.3, 1).Records[0]
		e := ended(r, amboy.StateSucceeded)
		e.TimeInfo.End = at
		require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	}
	f.insert(spec{id: "none"}) // which is put at the start
	fields := map[string]func(r driver.TimeRange) driver.Query{
		"created": func(r driver.TimeRange) driver.Query { return driver.Query{Created: r} },
		"due":     func(r driver.TimeRange) driver.Query { return driver.Query{Due: r} },
		"ended":   func(r driver.TimeRange) driver.Query { return driver.Query{Ended: r} },
	}
	ranges := []struct {
		from, to time.Time
		want     []string
	}{
		{f.after(2), f.after(3), []string{"2"}},
		{f.after(1), f.after(3), []string{"1", "2"}},
		{f.after(2), time.Time{}, []string{"2", "3"}},
		{f.after(0.5), f.after(2), []string{"1"}},
		{f.after(2), f.after(2), nil},
		{f.after(3), f.after(1), nil},
		{f.after(3.1), time.Time{}, nil},
		{f.after(2).Add(-time.Millisecond), f.after(2).Add(time.Millisecond), []string{"2"}},
	}
	for name, query := range fields {
		for _, r := range ranges {
			got := idsOrNil(f.find(query(driver.TimeRange{From: r.from, To: r.to})))
			require.Equal(f, r.want, got, "%s from %s to %s", name, r.from, r.to)
		}
		want := []string{"1"}
		if name == "created" {
			want = []string{"1", "none"}
		}
		got := idsOrNil(f.find(query(driver.TimeRange{To: f.after(2)})))
		require.ElementsMatch(f, want, got, "%s: an unset time lies in no range", name)
	}
}

func findLatest(f *fixture) {
	f.insert(spec{id: "other"})
	f.retry(f.retrying(spec{id: "job"}))
	assert.Len(f, f.find(driver.Query{}), 3)
	latest := f.find(driver.Query{Latest: true})
	require.Equal(f, []string{"other", "job"}, jobIDs(latest))
	assert.Equal(f, 1, latest[1].RetryInfo.CurrentAttempt)
	searched := f.pages(driver.Query{Latest: true}, driver.PageRequest{Limit: 10, Body: func(registry.Body) bool { return true }}, func([]string) {})
	assert.Equal(f, []string{"other", "job"}, slices.Concat(searched...))
	assert.Empty(f, f.find(driver.Query{Latest: true, States: []amboy.JobState{amboy.StateFailed}}))
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	assert.Len(f, f.find(driver.Query{Latest: true}), 2)
}

// pages returns the IDs of each non-empty page. It calls between after each page.
func (f *fixture) pages(q driver.Query, page driver.PageRequest, between func(seen []string)) [][]string {
	f.Helper()
	var pages [][]string
	var seen []string
	for {
		got, err := f.driver.Find(f.ctx, q, page)
		require.NoError(f, err)
		require.LessOrEqual(f, len(got.Records), page.Limit)
		if len(got.Records) > 0 {
			pages = append(pages, jobIDs(got.Records))
			seen = append(seen, jobIDs(got.Records)...)
		}
		if got.Next == "" {
			return pages
		}
		require.NotEqual(f, page.After, got.Next, "the cursor must advance")
		page.After = got.Next
		between(seen)
	}
}

func findPages(f *fixture) {
	f.fifteen()
	everything := jobIDs(f.list())
	ended := driver.Query{States: []amboy.JobState{amboy.StateSucceeded}}
	nothing := func([]string) {}
	for _, limit := range []int{1, 2, 4, 5, 15, 16} {
		pages := f.pages(driver.Query{}, driver.PageRequest{Limit: limit}, nothing)
		require.Equal(f, everything, slices.Concat(pages...), "in pages of %d", limit)
		pages = f.pages(ended, driver.PageRequest{Limit: limit}, nothing)
		require.Equal(f, []string{"3", "6", "9", "12", "15"}, slices.Concat(pages...), "in pages of %d", limit)
	}
}

func findWhileChanging(f *fixture) {
	for _, newest := range []bool{false, true} {
		in := f.in(fmt.Sprint("newest ", newest))
		in.fifteen()
		stay := []string{"1", "2", "4", "5", "7", "8", "10", "11", "13", "14"}
		added := 0
		pages := in.pages(driver.Query{Queues: []string{in.queue}}, driver.PageRequest{Limit: 2, Newest: newest}, func(seen []string) {
			added++
			if added > 3 {
				return
			}
			in.insert(spec{id: fmt.Sprint("new ", added), retryable: true, priority: 9})
			last := seen[len(seen)-1]
			if in.get(last).Status.Completed {
				in.delete(last) // the cursor is after it
			}
			other := []string{"3", "12", "9"}[added-1]
			if !slices.Contains(seen, other) {
				in.delete(other)
			}
			in.retry(in.end(in.claimOne(fmt.Sprint("new ", added)), amboy.StateRetrying))
			in.end(in.claimOne(fmt.Sprint("new ", added)), amboy.StateSucceeded)
			in.end(in.claim(1)[0], amboy.StateSucceeded)
		})
		seen := slices.DeleteFunc(slices.Concat(pages...), func(id string) bool { return !slices.Contains(stay, id) })
		if newest {
			slices.Reverse(seen)
		}
		require.Equal(f, stay, seen, "newest %t", newest)
	}
}

func findNewest(f *fixture) {
	f.fifteen()
	for _, limit := range []int{1, 4, 15, 100} {
		page := driver.PageRequest{Limit: limit, Newest: true}
		found := slices.Concat(f.pages(driver.Query{}, page, func([]string) {})...)
		slices.Reverse(found)
		require.Equal(f, jobIDs(f.list()), found)
	}
}

func findBrief(f *fixture) {
	f.insert(spec{id: "error"})
	r := f.claimOne("error")
	e := ended(r, amboy.StateFailed)
	e.Status.Errors = []string{"first", "last\x00 of two"}
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	f.retry(f.retrying(spec{id: "again"}))
	f.insert(spec{id: "pending", tags: []string{"tag"}})
	f.in("other").insert(spec{id: "pending"})
	scoped := f.record(spec{id: "scoped"})
	scoped.RequiredScopes, scoped.EnqueueScopes = []string{"late", "early"}, []string{"early"}
	require.Equal(f, []error{nil}, f.insertOf(scoped))
	for _, newest := range []bool{false, true} {
		whole, err := f.driver.Find(f.ctx, driver.Query{}, driver.PageRequest{Limit: 100, Newest: newest})
		require.NoError(f, err)
		brief, err := f.driver.Find(f.ctx, driver.Query{}, driver.PageRequest{Limit: 100, Newest: newest, Brief: true})
		require.NoError(f, err)
		require.Len(f, brief.Records, len(whole.Records))
		for i, r := range whole.Records {
			b := brief.Records[i]
			require.Equal(f, []string{r.Group, r.Name, r.JobID(), r.Type}, []string{b.Group, b.Name, b.JobID(), b.Type})
			require.Equal(f, r.RequiredScopes, b.RequiredScopes, r.Name)
			require.Equal(f, r.EnqueueScopes, b.EnqueueScopes, r.Name)
			require.True(f, r.TimeInfo.Start.Equal(b.TimeInfo.Start) && r.TimeInfo.End.Equal(b.TimeInfo.End), r.Name)
			require.Equal(f, driver.LastError(r.Status.Errors), driver.LastError(b.Status.Errors), r.Name)
		}
	}
}

func findBodies(f *fixture) {
	var want []string
	for i := range 30 {
		s := spec{id: fmt.Sprint("job ", i), note: "other", tags: []string{"tag"}}
		if i%7 == 3 {
			s.note = "wanted"
			want = append(want, s.id)
		}
		f.insert(s)
	}
	large := f.record(spec{id: "large", note: "wanted" + strings.Repeat("x", driver.MaxSearchedBody)})
	sealed := f.record(spec{id: "sealed"})
	sealed.Job = registry.NewSealedBody([]byte("wanted"))
	require.Equal(f, []error{nil, nil}, f.insertOf(large, sealed))
	f.in("other").insert(spec{id: "elsewhere", note: "wanted"})
	contains := func(body registry.Body) bool { return !body.IsSealed() && bytes.Contains(body.Raw(), []byte("wanted")) }
	for _, q := range []driver.Query{{Queues: []string{f.queue}}, {Queues: []string{f.queue}, Tags: []string{"tag"}, Latest: true}, {Queues: []string{f.queue}, States: []amboy.JobState{amboy.StatePending}}} {
		for _, newest := range []bool{false, true} {
			for _, page := range []driver.PageRequest{{Limit: 1}, {Limit: 2, Brief: true}, {Limit: 100}} {
				page.Body, page.Newest = contains, newest
				found := slices.Concat(f.pages(q, page, func([]string) {})...)
				if newest {
					slices.Reverse(found)
				}
				require.Equal(f, want, found, "%+v newest %t limit %d", q, newest, page.Limit)
			}
		}
	}
}

func findLimit(f *fixture) {
	f.insert(spec{id: "job"})
	for _, limit := range []int{0, -1} {
		_, err := f.driver.Find(f.ctx, driver.Query{}, driver.PageRequest{Limit: limit})
		require.Error(f, err, "Find with limit %d", limit)
		_, err = f.driver.Count(f.ctx, driver.Query{}, limit)
		require.Error(f, err, "Count with limit %d", limit)
	}
}

func (f *fixture) countOf(q driver.Query, limit int) int {
	f.Helper()
	n, err := f.driver.Count(f.ctx, q, limit)
	require.NoError(f, err)
	return n
}

func countFound(f *fixture) {
	everyState(f)
	f.in("other").insert(spec{id: "pending", tags: []string{"x"}})
	queries := []driver.Query{{}, {Queues: []string{f.queue}}, {ID: "p*"}, {Tags: []string{"x"}}, {Scope: "held"}, {Error: "failed"}, {ID: "unknown"}}
	for _, state := range amboy.JobStates() {
		queries = append(queries, driver.Query{States: []amboy.JobState{state}})
	}
	for _, q := range queries {
		require.Equal(f, len(f.find(q)), f.countOf(q, 100), "%+v", q)
	}
}

func countLimit(f *fixture) {
	f.fifteen()
	pending := driver.Query{States: []amboy.JobState{amboy.StatePending}}
	for limit, want := range map[int]int{1: 1, 9: 9, 10: 10, 11: 10, 1000: 10} {
		require.Equal(f, want, f.countOf(pending, limit), "with limit %d", limit)
	}
}
