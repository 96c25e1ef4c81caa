// Package crashtest is the proof that a durable queue loses nothing: tests that
// kill the processes of a queue, stop them, and take its file away, while a plan
// of jobs is put and run. It has no code but tests. docs/reliability.md says what
// they show.
//
// Each test has a short form, which go test runs, and a full one:
//
//	go test ./internal/crashtest -run 'TestCrash$' -v -timeout 30m -crashtest.kills=200 -crashtest.lease=2s
//	go test ./internal/crashtest -run 'TestSoftStop$' -v -timeout 10m -crashtest.stops=100
//	go test ./internal/crashtest -run 'TestLocked' -v -timeout 10m -crashtest.locked=30s
//	go test ./internal/crashtest -run 'TestReadOnly|TestDiskFull' -v
//	go test ./internal/crashtest -run 'TestSchedule$' -v -timeout 10m -crashtest.day=2m
//	go test ./internal/crashtest -run 'TestSuspension$' -v -timeout 10m -crashtest.pauses=20
//
// A run prints its seed. The same -crashtest.seed gives the same jobs, the same
// kills and the same stops; what the machine makes of them differs.
package crashtest
