// Package river compares the PostgreSQL driver with River on the same server. It is a module of
// its own, so that River is in no user's go.sum.
//
// The server is the one that AMBOY_TEST_POSTGRES_URL names. It should have
// shared_preload_libraries = 'pg_stat_statements' and the extension, which TestHeldSnapshot needs.
// The short forms take a minute each. These are the forms by which the driver is judged:
//
//	go test -run '^$' -bench Drain -benchtime 5x -timeout 30m
//	go test -run '^$' -bench 'Put|Retries' -benchtime 5x
//	go test -run TestLatency -v -latency 30s
//	go test -run TestWAL -v
//	go test -run TestHeldSnapshot -v -hold 15m -readers 2m -timeout 60m
//	go test -run TestHeldSnapshot -v -hold 60s -hold.due 300ms
//	go test -run TestHeldSnapshot/amboy -v -hold 60s -run.by 1h
//	go test -run TestSteadyLoad -v -steady 10m -keep 1m -timeout 30m
//	go test -run TestBacklog -v -backlog 1000000 -timeout 60m
//	go test -run TestDue -v
//	go test -run TestDue -v -due 100000 -due.after 60s
//	go test -run TestTenants -v -tenants 10000
//	go test -run TestPriorities -v -priorities 10000
package river
