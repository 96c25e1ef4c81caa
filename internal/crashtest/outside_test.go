package crashtest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
)

var outsideKills = flag.Int("crashtest.outsidekills", 2, "the number of processes that each test of outside workers kills")

// outsideFleet is a server and workers of a protocol.
type outsideFleet struct {
	*testing.T
	config outsideConfig
	live   [processes]*process // the first is the server
	begun  int
	deaths map[string]time.Time
}

func newOutsideFleet(t *testing.T, protocol string) *outsideFleet {
	t.Helper()
	f := &outsideFleet{
		T: t, config: outsideConfig{Store: newFile(t), Dir: t.TempDir(), Protocol: protocol, Lease: *lease}, deaths: map[string]time.Time{},
	}
	for part := range processes {
		f.start(part)
	}
	return f
}

// start starts a process. The server is ready then.
func (f *outsideFleet) start(part int) {
	f.Helper()
	f.begun++
	config := f.config
	config.Name = fmt.Sprintf("%s%04d", prefixOf(part), f.begun)
	encoded, err := json.Marshal(config)
	require.NoError(f, err)
	test := "TestOutsideWorker"
	if part == 0 {
		test = "TestOutsideServer"
	}
	p, err := startProcess(f.T, config.Name, test, outsideVariable+"="+string(encoded), nil)
	require.NoError(f, err)
	f.Cleanup(p.kill)
	f.live[part] = p
	p.await(f.T, "its start", p.ready)
}

// carryOut kills processes as planned.
func (f *outsideFleet) carryOut(plan []kill) {
	f.Helper()
	for _, k := range plan {
		<-time.After(k.after)
		p := f.live[k.process]
		f.deaths[p.name] = time.Now()
		p.kill()
		f.start(k.process)
	}
}

// stop ends the workers gracefully, and then the server.
func (f *outsideFleet) stop() {
	f.Helper()
	for part := processes - 1; part >= 0; part-- {
		p := f.live[part]
		require.NoError(f, p.stdin.Close())
		<-p.exited
		require.NoError(f, p.exit, "%s\n%s", p.name, &p.output)
	}
}

// TestOutsideWorker is run by the workers that TestOutside kills.
func TestOutsideWorker(t *testing.T) {
	c := outsideConfigOf(t)
	ctx, stop := context.WithCancel(t.Context())
	var slots sync.WaitGroup
	journal := openJournal(t, c.Dir, c.Name)
	for range workers {
		if c.Protocol == "http" {
			w := &webWorker{webClient: newWebClient(c.Dir), name: c.Name, lease: c.Lease, journal: journal}
			slots.Go(func() {
				defer w.http.CloseIdleConnections()
				w.run(ctx)
			})
			continue
		}
		client := otherClients[c.Protocol](c.Dir)
		slots.Go(func() {
			defer client.close()
			for ctx.Err() == nil {
				client.runOne(context.WithoutCancel(ctx))
			}
		})
	}
	fmt.Println(saysReady)
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	stop()
	slots.Wait()
}

// TestOutsideCrash kills the server and the workers of jobs over HTTP.
func TestOutsideCrash(t *testing.T) {
	t.Parallel()
	p := newPlan(planOptions{Seed: *seed, Kills: *outsideKills, Scopes: 8, LongWork: *lease * 5 / 4})
	for _, one := range p.tasks {
		one.RunOnFailure = false // jobs over HTTP run after jobs that succeeded
		if one.EnqueueScope != "" {
			// Over HTTP a job takes all its scopes when it is put, or none. A job that held one from then on, and
			// ran after a job that waits for it, would keep both waiting for ever.
			one.Scopes = []string{one.EnqueueScope}
		}
	}
	f := newOutsideFleet(t, "http")
	var producers sync.WaitGroup
	began := time.Now()
	for part, puts := range p.puts {
		j := openJournal(t, f.config.Dir, fmt.Sprintf("producer-%d", part))
		producers.Go(func() {
			client := newWebClient(f.config.Dir)
			defer client.http.CloseIdleConnections()
			for _, next := range puts {
				<-time.After(time.Until(began.Add(next.at)))
				for _, one := range next.tasks {
					client.putOverHTTP(t.Context(), one, j)
				}
			}
		})
	}
	f.carryOut(p.kills)
	producers.Wait()

	q := f.queue(outsideQueue)
	awaitIdle(t, q)
	client, last := newWebClient(f.config.Dir), openJournal(t, f.config.Dir, "last")
	defer client.http.CloseIdleConnections()
	for _, one := range p.lastTasks() {
		p.tasks[one.ID] = one
		client.putOverHTTP(t.Context(), one, last)
	}
	awaitIdle(t, q)
	f.stop()
	h := &history{plan: p, lease: f.config.Lease, events: readJournals(t, f.config.Dir, ""), deaths: f.deaths, stored: storedOutside(t, q, p)}
	requireKept(t, h)
	requireJudged(t, h)
	describe(t, h)
	t.Logf("%d of the kills were of the server", f.serverDeaths())
}

// serverDeaths returns how often the server was killed.
func (f *outsideFleet) serverDeaths() (n int) {
	for name := range f.deaths {
		if processNumber(name) == 0 {
			n++
		}
	}
	return n
}

// queue opens a queue of the fleet's store.
func (f *outsideFleet) queue(name string) amboy.Queue {
	f.Helper()
	g := outsidetest.StartGroup(f, outsideOptions(f.T, f.config), outside.Options{})
	q, err := g.Queues.Get(f.Context(), name)
	require.NoError(f, err)
	return q
}

// storedOutside reads the jobs of a plan.
func storedOutside(t *testing.T, q amboy.Queue, p *plan) map[string]ending {
	t.Helper()
	stored := map[string]ending{}
	for id := range p.tasks {
		if j, ok := q.Get(t.Context(), id); ok {
			result, _ := outside.ResultBytes(j) // nothing for none
			stored[id] = ending{amboy.NewJobInfo(j).State, j.RetryInfo().CurrentAttempt, string(result)}
		}
	}
	return stored
}

// TestOtherClientsCrash kills the server and the workers of jobs of the other protocols,
// whose acknowledgements carry no token: nothing is lost, but a job may run twice.
func TestOtherClientsCrash(t *testing.T) {
	for protocol, newClient := range otherClients {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			kills := newPlan(planOptions{Seed: *seed, Kills: *outsideKills, Scopes: 8, LongWork: time.Second}).kills
			f := newOutsideFleet(t, protocol)
			ctx, stop := context.WithCancel(t.Context())
			accepted := 0
			produced := make(chan struct{})
			go func() {
				defer close(produced)
				client := newClient(f.config.Dir)
				defer client.close()
				for ctx.Err() == nil {
					for !client.put(context.WithoutCancel(ctx), accepted) { // the server comes back
						again(context.WithoutCancel(ctx))
					}
					accepted++
					again(ctx)
				}
			}()
			f.carryOut(kills)
			stop()
			<-produced
			q := f.queue(clientQueue(protocol))
			awaitIdle(t, q)
			f.stop()
			states := map[string]amboy.JobState{} // of jobs by payload; one that succeeded comes first
			for info := range q.JobInfo(t.Context()) {
				j, ok := q.Get(t.Context(), info.ID)
				require.True(t, ok, info.ID)
				payload, _ := job.PayloadOf(j)
				if body := string(payload.Bytes) + string(payload.JSON); states[body] != amboy.StateSucceeded {
					states[body] = info.State
				}
			}
			for n := range accepted {
				assert.Equal(t, amboy.StateSucceeded, states[bodyOf(n)], bodyOf(n))
			}
			t.Logf("%d kills, %d of them of the server, %d accepted jobs", len(f.deaths), f.serverDeaths(), accepted)
		})
	}
}
