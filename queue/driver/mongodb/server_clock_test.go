package mongodb_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// Nothing said that the clocks of a process and of the server differ.
func TestAWrongClockIsWarnedOfNowAndThen(t *testing.T) {
	for name, test := range map[string]struct {
		ahead time.Duration
		want  int
	}{
		"a minute": {time.Minute, 2},
		"behind":   {-3 * time.Second, 2},
		"a little": {time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newStoreOf(t, mongotest.Options{InMemory: true, ClockAhead: test.ahead}).open()
				before := grip.GetSender()
				recorder := send.MakeInternalLogger()
				require.NoError(t, recorder.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Info}))
				require.NoError(t, grip.SetSender(recorder))
				for range 3 {
					recoverStale(t, d)
				}
				mongodb.Elapse(d, 11*time.Minute)
				recoverStale(t, d)
				require.NoError(t, grip.SetSender(before))
				warnings := 0
				for recorder.HasMessage() {
					if strings.Contains(recorder.GetMessage().Rendered, "clocks of this process and of the MongoDB server differ") {
						warnings++
					}
				}
				assert.Equal(t, test.want, warnings)
			})
		})
	}
}
