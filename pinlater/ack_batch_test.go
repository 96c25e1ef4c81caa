package pinlater_test

import (
	"strings"
	"testing"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// An acknowledgement that hits no job, because its queue or its priority is another, took the place of
// the right one in the same call, which was ignored.
func TestAWrongDescriptorInACallHidTheRightOne(t *testing.T) {
	inFakeTime(t, pinlater.Options{}, func(f *fixture) {
		right := f.put("a")
		f.dequeueOne()
		f.ack(succeeded(strings.Replace(right, mail, "other", 1), strings.Replace(right, ":p1:", ":p2:", 1), right))
		f.hasState(right, wire.PinLaterJobState_SUCCEEDED, 2)
	})
}
