#!/usr/bin/env bash
# Runs all tests: every package of the module with the race detector and
# coverage, then the short tests of the benchmarks module. The arguments go to
# both, as in: ./go.test.sh -run TestQueue -count=5
# Coverage is written to coverage.txt, and its total is printed at the end.
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

need_go
need_cc
export CGO_ENABLED=1

# Coverage is that of the library, and not of what is there for tests alone: counting in
# the MongoDB server of the tests makes them half as fast.
covered=$(go list ./... | grep -v -e /internal/mongotest -e /internal/browsertest -e /drivertest | paste -sd, -)

# Each line of the output would name all packages again.
go test -timeout 5m -race -covermode=atomic -coverpkg="$covered" -coverprofile=coverage.txt "$@" ./... 2>&1 |
	sed -u -e 's/ of statements in github.*/ of statements/' -e '/^warning: no packages being tested depend on/d'

# The race detector changes the counts of allocations and bytes that these
# tests assert, so they go without it.
go -C benchmarks test -timeout 5m -short "$@" ./...

go tool cover -func=coverage.txt | tail -n 1
