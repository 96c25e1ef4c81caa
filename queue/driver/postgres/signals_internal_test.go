package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEndsAreAnnouncedLessOftenThanWhatMayBeClaimed(t *testing.T) {
	for name, test := range map[string]struct {
		sinceLast time.Duration
		send      []bool // whether a change makes something claimable, 5 ms apart
		waits     time.Duration
	}{
		"the first end is announced at once": {time.Second, []bool{false}, 0},
		"an end waits for others":            {0, []bool{false}, endedPause},
		"a put waits for others":             {0, []bool{true}, signalPause},
		"a put takes an end along":           {0, []bool{false, true}, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSignals(&Driver{})
				begin := time.Now()
				go func() {
					for _, mayClaim := range test.send {
						s.send(mayClaim)
						time.Sleep(5 * time.Millisecond) // in virtual time
					}
				}()
				s.sent = begin.Add(-test.sinceLast)
				require.True(t, s.awaitTurn(t.Context()))
				assert.Equal(t, test.waits, time.Since(begin))
				synctest.Wait()
				time.Sleep(time.Second)
			})
		})
	}
}

// A turn came without a change, because two changes had asked for the one before, while a call had noted the times
// of its jobs and not asked for a notification yet. That then had no times: other processes did not search for the
// jobs for up to half a minute.
func TestATurnWithoutAChangeForgotTheTimesOfTheNext(t *testing.T) {
	s := newSignals(&Driver{})
	due := moments{due: spans{{1, 1}}}
	s.announce(due)
	s.sendOne(t.Context()) // it would send a notification if there were a change
	s.send(true)
	_, _, written := s.take()
	assert.Equal(t, due, written)
}
