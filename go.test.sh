#!/usr/bin/env bash
# Runs all tests: every package of the library and of the modules beside it, with the race
# detector; the benchmarks have tests of their own, which .ci/run runs. The arguments go to go
# test, as in: ./go.test.sh -run TestQueue -count=5
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

fail() {
	echo "go.test.sh: $*" >&2
	exit 1
}

need_go() {
	command -v go >/dev/null || fail "Go is not installed; go.mod names the version to install (https://go.dev/dl)"
}

# need_cc makes sure of the C compiler that the race detector needs.
need_cc() {
	local cc
	cc=$(go env CC)
	if command -v "${cc%% *}" >/dev/null; then
		return
	fi
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		fail "the race detector needs a C compiler, and $cc is not installed"
	fi
	echo "installing gcc, which the race detector needs"
	apt-get update -qq
	apt-get install -y -qq gcc libc6-dev
}

# need_postgres makes sure of the PostgreSQL server and the pooler that some tests start.
# Without them these are skipped, and say so.
need_postgres() {
	local packages=()
	if [ -z "${AMBOY_TEST_POSTGRES_URL:-}" ] && ! command -v initdb >/dev/null && ! compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then
		packages+=(postgresql)
	fi
	if ! command -v pgbouncer >/dev/null && [ ! -x /usr/sbin/pgbouncer ]; then
		packages+=(pgbouncer)
	fi
	if [ ${#packages[@]} = 0 ]; then
		return
	fi
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "go.test.sh: not installed: ${packages[*]}; the tests that need them are skipped"
		return
	fi
	echo "installing ${packages[*]}, which some tests start"
	if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" >/dev/null; }; then
		echo "go.test.sh: could not be installed: ${packages[*]}; the tests that need them are skipped"
	fi
}

# use_memory puts the temporary files of the tests, such as databases, in memory, if the system has
# a file system there with room for them. The programs that go test builds stay on the disk.
use_memory() {
	local memory=/dev/shm probe free
	if [ -n "${TMPDIR:-}" ] || ! probe=$(mktemp -p "$memory" 2>/dev/null); then
		return
	fi
	printf '#!/bin/sh\n' >"$probe"
	chmod +x "$probe"
	free=$(df -Pk "$memory" | awk 'END { print $4 }')
	if [ "$free" -ge $((4 * 1024 * 1024)) ] && "$probe" 2>/dev/null; then
		export GOTMPDIR="${GOTMPDIR:-/tmp}" TMPDIR=$memory
	fi
	rm "$probe"
}

need_go
need_cc
need_postgres
use_memory
export CGO_ENABLED=1

# The race detector would have each package sleep for a second at its end, for races of
# goroutines that are left; goleak finds those goroutines themselves.
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"

# SQLite is C, translated to Go by a machine. Checking each of its memory accesses for
# races takes four times as long as all else that the tests of that store do. What the two
# packages that encode and decode BSON share between goroutines is pools of the standard
# library. bsonvalue, of the stand-in for MongoDB, shares nothing. -race also turns on checks of
# unsafe pointers, of which this code has none. go vet is a step of .ci/run. Traces need neither
# the table of symbols nor DWARF, which the compiler would write all the same, in a seventh of its
# time.
#
# Some packages mostly wait, for browsers and processes, so there are more at once than processors.
# Those that take longest come first, so that none of them is left when the others have ended.
#
# The tests make much garbage and keep little. Collecting it less often saves a quarter of
# the processor time of those of MongoDB; the limit is for tests that keep more.
processors=$(getconf _NPROCESSORS_ONLN)
export GOGC="${GOGC:-400}" GOMEMLIMIT="${GOMEMLIMIT:-1GiB}"
settings=(-p $((processors * 2)) -timeout 20m -race -vet=off
	-ldflags=-s
	-gcflags='all=-dwarf=false -d=checkptr=0'
	-gcflags='modernc.org/...=-dwarf=false -race=false'
	-gcflags='go.mongodb.org/mongo-driver/bson/bsonrw=-dwarf=false -race=false'
	-gcflags='go.mongodb.org/mongo-driver/x/bsonx/bsoncore=-dwarf=false -race=false'
	-gcflags='github.com/mongodb/amboy/internal/mongotest/bsonvalue=-dwarf=false -race=false')
failed=0
go test "${settings[@]}" "$@" ./queue/... ./internal/crashtest ./management ./internal/browsertest/... \
	./examples/... ./cmd/amboy/... ./rest/internal/openapi/... \
	./middleware/otelamboy/oteltest/... ./... || failed=1
# River has a workspace of its own, so it needs a call of its own.
go test -C queue/driver/riverjob/rivertest "${settings[@]}" -short "$@" ./... || failed=1
exit $failed
