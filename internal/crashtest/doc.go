// Package crashtest tests that a durable queue loses nothing: the tests kill and stop the
// processes of a queue, and make its file unavailable, while a plan of jobs is put and
// run. It contains only tests. docs/reference/reliability.md describes what they show.
//
// Each test has a short form, which go test runs, and a full one:
//
//	go test ./internal/crashtest -run 'TestCrash$' -v -timeout 30m -crashtest.kills=200 -crashtest.lease=2s
//	go test ./internal/crashtest -run 'TestOutsideCrash$' -v -timeout 25m -crashtest.outsidekills=200 -crashtest.lease=2s
//	go test ./internal/crashtest -run 'TestOtherClientsCrash$' -v -timeout 25m -crashtest.outsidekills=200 -crashtest.lease=2s
//	go test ./internal/crashtest -run 'TestSoftStop$' -v -timeout 10m -crashtest.stops=100
//	go test ./internal/crashtest -run 'TestLocked' -v -timeout 10m -crashtest.locked=30s
//	go test ./internal/crashtest -run 'TestReadOnly|TestDiskFull|TestFileSizeLimit' -v
//	go test ./internal/crashtest -run 'TestSchedule$' -v -timeout 10m -crashtest.day=2m -crashtest.schedulers=8
//	go test ./internal/crashtest -run 'TestServerFaults|TestServerOutages' -v -timeout 10m -crashtest.fault=1s
//	go test ./internal/crashtest -run 'TestFailovers|TestAPrimaryDies' -v -timeout 60m -crashtest.mongod=$(which mongod) -crashtest.failovers=5
//	go test ./internal/crashtest -run 'TestPostgres' -v -timeout 30m -crashtest.serverkills=100 -crashtest.terminations=4000
//	go test ./internal/crashtest -run 'TestEndsInTransactions$' -v -timeout 25m -crashtest.endkills=1000
//	go test ./internal/crashtest -run 'TestRateHolds' -v -timeout 20m -crashtest.rate=1m -crashtest.rate-of=queue
//	go test ./internal/crashtest -run 'TestLimitHolds' -v -timeout 20m -crashtest.limit=1m -crashtest.limit-lease=2s -crashtest.limit-kills=6s
//	go test ./internal/crashtest -run 'TestSlotsOfALimit' -v -timeout 20m -crashtest.slots=1m
//	go test ./internal/crashtest -run TestSuspension -v -timeout 10m -crashtest.pauses=20
//
// A server that can't keep up with the jobs of TestCrash, some 60 a second, runs them long after the last kill.
// It gets fewer of the same kinds with a longer -crashtest.puts, for instance 1500ms for a sixth of them.
//
// A run prints its seed. The same -crashtest.seed gives the same jobs, kills and stops;
// their timing differs from run to run.
package crashtest
