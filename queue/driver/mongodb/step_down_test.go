package mongodb_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
)

// stepDownOnce makes the primary step down while it serves the next write of the jobs.
func stepDownOnce(s *mongotest.Deployment, command string) {
	var once sync.Once
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		fate := mongotest.Served
		if c.AppName == s.Database() && c.Collection == "work.group" && c.Name == command {
			once.Do(func() { fate = mongotest.Deposed })
		}
		return fate
	})
}

// A server that steps down refuses single statements, as it does for duplicates. An end that was refused
// so was given up, and the job ran again when its lease was over.
func TestAWriteThatMetAStepDownWasGivenUp(t *testing.T) {
	for name, test := range map[string]struct {
		command string
		write   func(t *testing.T, d driver.Driver, running *driver.Record)
	}{
		"end": {"update", func(t *testing.T, d driver.Driver, running *driver.Record) {
			endAll(t, d, running)
		}},
		"hand-back": {"update", func(t *testing.T, d driver.Driver, running *driver.Record) {
			errs, err := d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(running)}})
			require.NoError(t, err)
			require.NoError(t, errs[0])
		}},
		"claim": {"update", func(t *testing.T, d driver.Driver, _ *driver.Record) {
			require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
		}},
		"renewal": {"update", func(t *testing.T, d driver.Driver, running *driver.Record) {
			lost, err := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(running)}, time.Minute)
			require.NoError(t, err)
			assert.Empty(t, lost)
		}},
		"insert": {"insert", func(t *testing.T, d driver.Driver, _ *driver.Record) { putAll(t, d, plainRecord("third")) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				d := openOn(t, s)
				putAll(t, d, plainRecord("first"))
				running := claimAll(t, d, request("owner", 1, "queue"))
				require.Len(t, running, 1)
				putAll(t, d, plainRecord("second"))
				stepDownOnce(s, test.command)
				test.write(t, d, running[0])
			})
		})
	}
}
