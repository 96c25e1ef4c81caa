package guard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/guard"
)

// ticking is an Inspector whose Watch yields at each interval, until it fails.
type ticking struct {
	management.Inspector
	started, running atomic.Int32
	fails            chan error
}

func (i *ticking) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		i.started.Add(1)
		i.running.Add(1)
		defer i.running.Add(-1)
		for n := 0; ; n++ {
			if !yield([]management.Queue{{Name: "mine", Counts: management.Counts{Total: n}}, {Name: "theirs"}}, nil) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case err := <-i.fails:
				yield(nil, err)
				return
			case <-time.After(every):
			}
		}
	}
}

func (i *ticking) Queue(_ context.Context, name string) (management.Queue, error) {
	return management.Queue{}, fmt.Errorf("queue %q: %w", name, management.ErrUnknownQueue)
}

// follow watches until its context ends. It returns the number of yields, and the error at the
// end.
func follow(ctx context.Context, g *guard.Guard, every time.Duration) (times *atomic.Int32, ended <-chan error) {
	return followFrom(ctx, g, every, "192.0.2.1:1")
}

// followFrom is like follow for a client address, optionally followed by a space and a user.
func followFrom(ctx context.Context, g *guard.Guard, every time.Duration, from string) (times *atomic.Int32, ended <-chan error) {
	times = &atomic.Int32{}
	end := make(chan error, 1)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", http.NoBody)
	if err != nil {
		panic(err)
	}
	address, user, _ := strings.Cut(from, " ")
	r.RemoteAddr = address
	r.Header.Set("User", user)
	go func() {
		var last error
		for _, err := range g.Inspector(r).Watch(ctx, every) {
			if err == nil {
				times.Add(1)
			}
			last = err
		}
		end <- last
	}()
	return times, end
}

// busiest is an Inspector whose Watch does not yield the queue of the tenant.
type busiest struct {
	ticking
	reads atomic.Int32
}

func (i *busiest) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		for queues, err := range i.ticking.Watch(ctx, every) {
			if !yield(queues[1:], err) {
				return
			}
		}
	}
}

func (i *busiest) Queue(_ context.Context, name string) (management.Queue, error) {
	if name != "mine" {
		return management.Queue{}, fmt.Errorf("another queue was read: %q", name)
	}
	return management.Queue{Name: name, Counts: management.Counts{Total: int(i.reads.Add(1)) / 2}}, nil
}

func TestATenantThatIsNotAmongTheBusiestWatchesItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &busiest{}
		g := guard.New(guard.Options{Inspector: inner, Authorize: everything, Tenant: only("mine")})
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", http.NoBody)
		require.NoError(t, err)
		r.RemoteAddr = "192.0.2.1:1"
		var totals []int
		for queues, err := range g.Inspector(r).Watch(ctx, time.Second) {
			require.NoError(t, err)
			require.Len(t, queues, 1)
			totals = append(totals, queues[0].Counts.Total)
		}
		assert.Equal(t, []int{0, 1, 2}, totals)
	})
}

func TestWatchesAtOneRateShareOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &ticking{}
		g := guard.New(guard.Options{Inspector: inner, Authorize: everything})
		ctx, cancel := context.WithCancel(t.Context())
		var all []*atomic.Int32
		var ends []<-chan error
		for range 20 {
			times, end := follow(ctx, g, time.Second)
			all, ends = append(all, times), append(ends, end)
		}
		time.Sleep(5500 * time.Millisecond) // fake time
		synctest.Wait()
		assert.EqualValues(t, 1, inner.started.Load())
		for _, times := range all {
			assert.EqualValues(t, 6, times.Load())
		}
		late, end := follow(ctx, g, time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, late.Load(), "a late watcher gets the current state at once")
		_, otherEnd := follow(ctx, g, time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 2, inner.started.Load(), "another rate needs another watch")

		cancel()
		for _, end := range append(ends, end, otherEnd) {
			require.NoError(t, <-end)
		}
		assert.Zero(t, inner.running.Load(), "the last watcher must wait until the watch has ended")
	})
}

func TestWatchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &ticking{fails: make(chan error)}
		g := guard.New(guard.Options{Inspector: inner, Authorize: everything})
		_, end := follow(t.Context(), g, time.Second)
		_, another := follow(t.Context(), g, time.Second)
		synctest.Wait()
		failure := errors.New("store failure")
		inner.fails <- failure
		require.ErrorIs(t, <-end, failure)
		require.ErrorIs(t, <-another, failure)

		ctx, cancel := context.WithCancel(t.Context())
		times, end := follow(ctx, g, time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, times.Load(), "the next watcher starts a new watch")
		cancel()
		require.NoError(t, <-end)
	})
}

func TestWatchEndsAfterAccessIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var denied atomic.Bool
		g := guard.New(guard.Options{Inspector: &ticking{}, Authorize: func(*http.Request, guard.Access) error {
			if denied.Load() {
				return errors.New("logged out")
			}
			return nil
		}})
		times, end := follow(t.Context(), g, time.Second)
		synctest.Wait()
		denied.Store(true)
		var e *guard.DeniedError
		require.ErrorAs(t, <-end, &e)
		assert.EqualValues(t, 1, times.Load())
	})
}

// The tenant of a request was found once, so that a session that had ended kept its events.
func TestWatchWentOnAfterTheSessionOfItsTenantHadEnded(t *testing.T) {
	for name, later := range map[string]string{"logged out": "", "logged in as another tenant": "theirs"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tenant atomic.Value
				tenant.Store("mine")
				g := guard.New(guard.Options{
					Inspector: &ticking{}, Authorize: everything,
					Tenant: func(*http.Request) string { return tenant.Load().(string) },
				})
				times, end := follow(t.Context(), g, time.Second)
				synctest.Wait()
				tenant.Store(later)
				var e *guard.DeniedError
				require.ErrorAs(t, <-end, &e)
				assert.EqualValues(t, 1, times.Load())
			})
		})
	}
}

func TestWatchOfATenant(t *testing.T) {
	g := guard.New(guard.Options{Inspector: &ticking{}, Authorize: everything, Tenant: only("mine")})
	for queues, err := range g.Inspector(request(t)).Watch(t.Context(), time.Second) {
		require.NoError(t, err)
		require.Len(t, queues, 1)
		assert.Equal(t, "mine", queues[0].Name)
		break
	}
}

// only names the same tenant for all requests.
func only(tenant string) func(*http.Request) string {
	return func(*http.Request) string { return tenant }
}

// A request of no tenant must not get the queue whose name is empty.
func TestNoTenantIsNotTheQueueWithoutAName(t *testing.T) {
	g := guard.New(guard.Options{Inspector: &ticking{}, Authorize: everything, Tenant: only("")})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	require.ErrorIs(t, g.AllowWork(r, []string{""}, []string{"scale"}), management.ErrUnknownQueue)
	require.Error(t, g.Check(r, guard.Read))
	_, err := g.Inspector(r).Job(t.Context(), "", "id")
	require.Error(t, err)
}

// TestWatchOfATenantIsQuiet checks that a tenant does not notice changes of other tenants.
func TestWatchOfATenantIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for tenant, want := range map[string]int32{"mine": 6, "theirs": 1, "unknown": 1} {
			g := guard.New(guard.Options{Inspector: &ticking{}, Authorize: everything, Tenant: only(tenant)})
			ctx, cancel := context.WithCancel(t.Context())
			times, end := follow(ctx, g, time.Second)
			time.Sleep(5500 * time.Millisecond) // fake time
			synctest.Wait()
			assert.Equal(t, want, times.Load(), tenant)
			cancel()
			require.NoError(t, <-end)
		}
	})
}

// TestWatchesAreFew checks that requests with many different rates cause few watches of the
// store, and that none yields more often than requested.
func TestWatchesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &ticking{}
		g := guard.New(guard.Options{Inspector: inner, Authorize: everything})
		ctx, cancel := context.WithCancel(t.Context())
		var ends []<-chan error
		for n := range 500 {
			_, end := followFrom(ctx, g, management.MinWatch+time.Duration(n)*7*time.Second, fmt.Sprintf("192.0.2.%d:1", n%10))
			ends = append(ends, end)
		}
		slow, end := follow(ctx, g, 1001*time.Millisecond)
		ends = append(ends, end)
		time.Sleep(4500 * time.Millisecond) // fake time
		synctest.Wait()
		assert.Less(t, inner.started.Load(), int32(20))
		assert.EqualValues(t, 3, slow.Load(), "every 2s")
		cancel()
		for _, end := range ends {
			require.NoError(t, <-end)
		}
	})
}

// fill starts watchers until the guard refuses one, and returns how many are watching.
func fill(ctx context.Context, g *guard.Guard, from string, most int) (watching int, ends []<-chan error, last error) {
	for range most {
		times, end := followFrom(ctx, g, time.Hour, from)
		synctest.Wait()
		if times.Load() == 0 {
			return watching, ends, <-end
		}
		watching++
		ends = append(ends, end)
	}
	return watching, ends, nil
}

// A client that watches a thousand times must leave room for others.
func TestAttackOneClientUsesUpAllWatchers(t *testing.T) {
	named := func(r *http.Request) string { return r.Header.Get("User") }
	for name, test := range map[string]struct {
		actor           func(*http.Request) string
		attacker, other []string // an address, optionally with a user
	}{
		"an address":                    {nil, []string{"192.0.2.1:1", "192.0.2.1:2"}, []string{"192.0.2.2:1"}},
		"addresses of one IPv6 network": {nil, []string{"[2001:db8::1]:1", "[2001:db8::ffff:2]:1"}, []string{"[2001:db8:0:1::1]:1"}},
		"a user with many addresses":    {named, []string{"192.0.2.1:1 eve", "192.0.2.2:1 eve"}, []string{"192.0.2.1:1 ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guard.New(guard.Options{Inspector: &ticking{}, Authorize: everything, Actor: test.actor})
				ctx, cancel := context.WithCancel(t.Context())
				watching, ends, err := fill(ctx, g, test.attacker[0], guard.MaxWatchers)
				assert.Equal(t, guard.MaxWatchersOfClient, watching)
				require.ErrorIs(t, err, guard.ErrTooManyOfClient)
				_, _, err = fill(ctx, g, test.attacker[1], 1)
				require.ErrorIs(t, err, guard.ErrTooManyOfClient)
				watching, more, err := fill(ctx, g, test.other[0], 1)
				require.NoError(t, err)
				assert.Equal(t, 1, watching)
				cancel()
				for _, end := range append(ends, more...) {
					require.NoError(t, <-end)
				}
				ctx, cancel = context.WithCancel(t.Context())
				watching, ends, err = fill(ctx, g, test.attacker[0], 1)
				require.NoError(t, err, "the client can watch again")
				assert.Equal(t, 1, watching)
				cancel()
				require.NoError(t, <-ends[0])
			})
		})
	}
}

func TestWatchersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard.New(guard.Options{Inspector: &ticking{}, Authorize: everything})
		ctx, cancel := context.WithCancel(t.Context())
		var ends []<-chan error
		for n := range guard.MaxWatchers {
			_, end := followFrom(ctx, g, time.Hour, fmt.Sprintf("192.0.2.%d:1", n%20))
			ends = append(ends, end)
		}
		synctest.Wait()
		_, end := followFrom(ctx, g, time.Hour, "192.0.2.99:1")
		require.ErrorIs(t, <-end, guard.ErrTooManyWatchers)
		cancel()
		for _, end := range ends {
			require.NoError(t, <-end)
		}
		ctx, cancel = context.WithCancel(t.Context())
		times, end := follow(ctx, g, time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 1, times.Load())
		cancel()
		require.NoError(t, <-end)
	})
}

func TestWatchRefusesARate(t *testing.T) {
	g := guard.New(guard.Options{Inspector: &ticking{}, Authorize: everything})
	for _, every := range []time.Duration{0, management.MinWatch - 1, management.MaxWatch + 1} {
		_, end := follow(t.Context(), g, every)
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, <-end, &argument)
		assert.Equal(t, "every", argument.Field)
	}
}

// panicking is an Inspector whose Watch panics.
type panicking struct{ management.Inspector }

func (panicking) Watch(context.Context, time.Duration) iter.Seq2[[]management.Queue, error] {
	panic("no")
}

func TestWatchThatPanics(t *testing.T) {
	g := guard.New(guard.Options{Inspector: panicking{}, Authorize: everything})
	_, end := follow(t.Context(), g, time.Second)
	require.ErrorContains(t, <-end, "panicked")
}
