#!/usr/bin/env bash
# A worker for the shell, with curl and jq. Use it as it is, or copy it.
#
#     AMBOY_URL=http://localhost:8080 AMBOY_TOKEN=... bash worker.sh texts
set -u -o pipefail
url=${AMBOY_URL:-http://localhost:8080} lease=${AMBOY_LEASE:-30} wait=${AMBOY_WAIT:-5} queue=${1:-texts}
beats=
stopping=
files=$(mktemp -d)
trap 'stopping=1' INT TERM
trap 'rm -rf "$files"; [ -n "$beats" ] && kill "$beats" 2>/dev/null' EXIT

# call PATH sends the body from standard input, and prints the answer.
call() {
  curl --silent --show-error --fail-with-body --max-time 60 --json @- \
    ${AMBOY_TOKEN:+--header "Authorization: Bearer $AMBOY_TOKEN"} "$url$1"
}

# completion TOKEN prints the acknowledgement of a job that has succeeded. It fails if the result is not
# one JSON value of at most 1 MiB.
completion() {
  jq -sc --arg token "$1" 'if length == 1 then {acknowledge: [{token: $token, complete: {result: .[0]}}]} else error("no result") end' \
    "$files/result" >"$files/ack" && [ "$(wc -c <"$files/ack")" -le 1048576 ] && cat "$files/ack"
}

# failure TOKEN PERMANENT prints the acknowledgement of an attempt that has failed.
failure() {
  jq -Rsc --arg token "$1" --argjson permanent "$2" \
    '{acknowledge: [{token: $token, fail: {error: (.[:10000] | rtrimstr("\n") | if . == "" then "stopped" else . end), permanent: $permanent}}]}' "$files/error"
}

# acknowledge BODY tells the server about a job, until the server has answered, or the worker stops: then the job is
# leased again.
acknowledge() {
  until call /v2/leases/acknowledge <<<"$1" | jq -e 'all(.acknowledged[]; (.problem.status // 0) < 500)' >/dev/null; do
    [ -z "$stopping" ] || return
    sleep 1
  done
}

# heartbeats TOKEN PID renews a lease until it is killed, and stops the job if it is canceled.
heartbeats() {
  while sleep "$(jq -n "$lease / 3")" && kill -0 $$ 2>/dev/null; do # not longer than the worker lives
    if jq -nc --arg token "$1" '{heartbeats: [{token: $token}]}' | call /v2/leases/heartbeat |
      jq -e '.heartbeats[0] | .cancel or .problem.status == 409' >/dev/null; then
      kill "$2" 2>/dev/null
    fi
  done
}

# count counts words, slowly if that is asked for. It prints the result, or fails with an error on standard error.
count() {
  local args=$1 attempt=$2 words
  words=$(jq -r .text <<<"$args" | wc -w)
  sleep "$(jq -n "$words * $(jq '.pause // 0' <<<"$args")")" & wait $! || exit 1
  if [ "$attempt" = 1 ] && [ "$(jq .fail <<<"$args")" = true ]; then echo "the first attempt fails" >&2; exit 1; fi
  if [ "$words" = 0 ]; then echo "no words" >&2; exit 2; fi
  echo "{\"words\": $words, \"by\": \"shell\"}"
}

while [ -z "$stopping" ]; do
  job=$(jq -nc --arg queue "$queue" --arg lease "${lease}s" --arg wait "${wait}s" --arg worker "shell-$$" \
    '{queues: [$queue], types: ["count"], wait: $wait, lease: $lease, worker: $worker}' | call /v2/leases | jq -c '.jobs[0] // empty') || { sleep 1; continue; }
  [ -n "$job" ] || continue
  token=$(jq -r .token <<<"$job")
  if [ -n "$stopping" ]; then # a job that comes after the signal is handed back
    acknowledge "$(jq -nc --arg token "$token" '{acknowledge: [{token: $token, release: {}}]}')"
    continue
  fi
  count "$(jq -c .args <<<"$job")" "$(jq .attempt <<<"$job")" >"$files/result" 2>"$files/error" &
  running=$!
  heartbeats "$token" "$running" &
  beats=$!
  while kill -0 "$running" 2>/dev/null; do wait "$running"; done # a signal interrupts wait
  wait "$running"
  status=$?
  kill "$beats" 2>/dev/null
  beats=
  if [ "$status" != 0 ] || ! ack=$(completion "$token" 2>/dev/null); then
    [ "$status" != 0 ] || echo "the result is not JSON of at most 1 MiB" >"$files/error"
    ack=$(failure "$token" "$([ "$status" = 2 ] && echo true || echo false)")
  fi
  acknowledge "$ack"
done
