package loop_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/loop"
)

func TestACallThatTakesLongDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls loop.Calls
		var mu sync.Mutex
		made := map[int]int{}
		release := make(chan struct{})
		stuck := func(i int) bool { return i < 5 }
		forEach := func() {
			var items []int
			for i := range 20 {
				items = append(items, i)
			}
			loop.ForEach(&calls, 2, items, func(i int) string { return string(rune('a' + i)) }, func(i int) {
				mu.Lock()
				made[i]++
				mu.Unlock()
				if stuck(i) {
					<-release
				}
			})
		}
		began := time.Now()
		forEach()
		assert.Less(t, time.Since(began), 10*time.Second)
		again := time.Now()
		forEach()
		assert.Zero(t, time.Since(again), "the stuck calls are not repeated")
		for i := range 20 {
			want := 2
			if stuck(i) {
				want = 1
			}
			assert.Equal(t, want, made[i], i)
		}

		waited := make(chan struct{})
		go func() {
			calls.Wait()
			close(waited)
		}()
		synctest.Wait()
		select {
		case <-waited:
			assert.Fail(t, "Wait returned before the calls")
		default:
		}
		close(release)
		<-waited
		forEach()
		assert.Equal(t, 2, made[0])
	})
}
