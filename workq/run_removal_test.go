package workq_test

import (
	"testing"
	"testing/synctest"
)

// A run removed the job with its ID when its wait was over, although another client had deleted
// the job of the run, and put another one with the ID.
func TestARunRemovedALaterJobWithItsID(t *testing.T) {
	for name, put := range map[string]string{
		"added": add(1, "q", 1000, 60_000, "later"),
		"run":   run(1, "q", 1000, 60_000, "later"),
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, noOptions, func(f *fixture) {
				runner, putter, worker := f.connect(), f.connect(), f.connect()
				runner.send(run(1, "q", 1000, 5000, "earlier"))
				synctest.Wait()
				putter.do("delete "+id(1)+"\r\n", ok)
				putter.send(put)
				synctest.Wait()
				runner.expect(timeout)
				worker.do("lease q 0\r\n", job(1, "q", 1000, "later"))
			})
		})
	}
}
