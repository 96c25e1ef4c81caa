package mongodb_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// Each subscriber that left was counted until a timer fired, which outlived the driver.
func TestTimersOutlivedTheirDriver(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		client := s.Connect()
		opened := func() weak.Pointer[mongodb.Driver] {
			d, err := mongodb.Open(t.Context(), mongodb.Options{Client: client, DB: s.Database(), Collection: "work"})
			require.NoError(t, err)
			for range 10 {
				d.Subscribe(func(driver.Change) {})()
			}
			require.NoError(t, d.Close(t.Context()))
			return weak.Make(d)
		}()
		synctest.Wait()
		runtime.GC()
		assert.Nil(t, opened.Value())
	})
}
