package schedule_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Many entries leave their structure before their turn, behind one that stays.
func TestMemoryOfEntriesThatLeaveIsFreed(t *testing.T) {
	const entries = 10_000
	for name, test := range map[string]struct {
		stays, leaves entry
		leave         func(f *fixture, e *entry)
	}{
		"deadlines of entries that started": {
			stays:  entry{DispatchBy: after(1), WaitUntil: after(1)},
			leaves: entry{DispatchBy: after(3600)},
			leave:  func(f *fixture, _ *entry) { f.Finish(f.Next(), true, f.now) },
		},
		"times": {
			stays:  entry{WaitUntil: after(1)},
			leaves: entry{WaitUntil: after(3600)},
		},
		"entries that are ready": {
			stays:  entry{Priority: 1},
			leaves: entry{},
		},
		"entries that wait for a scope": {
			stays:  entry{Priority: 1, Scopes: schedule.NewScopes([]string{"s"}, nil)},
			leaves: entry{Scopes: schedule.NewScopes([]string{"s"}, nil)},
		},
		"entries that others depend on": {
			stays:  entry{WaitUntil: after(1)},
			leaves: entry{WaitUntil: after(1)},
			leave: func(f *fixture, e *entry) {
				d := dependent("dependent of "+e.ID, e.ID)
				f.add(d)
				f.Finish(e, true, f.now)
				f.Finish(d, true, f.now)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.KeepFinished = 1
			f.add(&entry{ID: "holder", Scopes: schedule.NewScopes([]string{"s"}, nil), Priority: 2})
			f.next("holder")
			stays := test.stays
			stays.ID = "stays"
			f.add(&stays)
			if test.leave == nil {
				test.leave = func(f *fixture, e *entry) { f.Finish(e, true, f.now) }
			}
			added := make([]*entry, entries)
			for i := range added {
				e := test.leaves
				e.ID = fmt.Sprint("entry-", i)
				added[i] = &e
				require.NoError(t, f.Add(&e, f.now))
			}
			seen := make([]weak.Pointer[entry], entries)
			for i, e := range added {
				test.leave(f, e)
				seen[i] = weak.Make(e)
			}
			clear(added)

			runtime.GC()
			kept := 0
			for _, e := range seen {
				if e.Value() != nil {
					kept++
				}
			}
			assert.Less(t, kept, 1000)
			assert.Equal(t, "stays", f.get("stays").ID)
			runtime.KeepAlive(f)
		})
	}
}

// heapSize returns the number of bytes in use.
func heapSize() int64 {
	for range 2 { // the second collects what the first has freed
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Some memory stays in use, because the buckets of maps do not shrink. Heaps that kept their slots would
// double it: there are two, with 32 bytes for each entry.
func TestHeapsShrink(t *testing.T) {
	const entries, bytesEach = 10_000, 64
	for name, end := range map[string]func(*fixture){
		"when entries are taken out from the top": func(f *fixture) {
			for f.IsBehind(after(5)) {
				assert.Empty(f.t, f.advance(after(5)))
			}
			assert.Len(f.t, f.drain(), entries)
		},
		"when entries leave": func(f *fixture) {
			for i := range entries {
				f.finish(fmt.Sprint(i), true)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.KeepFinished = 1
			before := heapSize()
			for i := range entries {
				f.add(&entry{ID: fmt.Sprint(i), WaitUntil: after(1).Add(time.Duration(i)), DispatchBy: after(10)})
			}
			end(f)
			grown := heapSize() - before
			t.Log("grown by", grown)
			assert.Less(t, grown, int64(entries*bytesEach))
			runtime.KeepAlive(f)
		})
	}
}
