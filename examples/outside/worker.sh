#!/usr/bin/env bash
# A worker for the shell, with curl and jq. Use it as it is, or copy it.
#
#     AMBOY_URL=http://localhost:8080 AMBOY_TOKEN=... bash worker.sh texts
set -u
url=${AMBOY_URL:-http://localhost:8080} lease=${AMBOY_LEASE:-30} wait=${AMBOY_WAIT:-5} queue=${1:-texts}
beats=
stopping=
trap 'stopping=1' INT TERM
trap '[ -n "$beats" ] && kill "$beats" 2>/dev/null' EXIT

# call PATH sends the body from standard input, and prints the answer.
call() {
  curl --silent --show-error --fail-with-body --max-time 60 --json @- \
    ${AMBOY_TOKEN:+--header "Authorization: Bearer $AMBOY_TOKEN"} "$url$1"
}

# acknowledge TOKEN WHAT BODY tells the server about a job, until the server has answered.
acknowledge() {
  until jq -nc --arg token "$1" --arg what "$2" --argjson body "$3" '{acknowledge: [{token: $token, ($what): $body}]}' |
    call /v2/leases/acknowledge | jq -e 'all(.acknowledged[]; (.problem.status // 0) < 500)' >/dev/null; do
    sleep 1
  done
}

# heartbeats TOKEN PID renews a lease until it is killed, and stops the job if it is canceled.
heartbeats() {
  while sleep "$(jq -n "$lease / 3")"; do
    if jq -nc --arg token "$1" '{heartbeats: [{token: $token}]}' | call /v2/leases/heartbeat |
      jq -e '.heartbeats[0] | .cancel or .problem.status == 409' >/dev/null; then
      kill "$2" 2>/dev/null
    fi
  done
}

# count counts words, slowly if that is asked for. It prints the result, or an error and fails.
count() {
  local args=$1 attempt=$2 words
  words=$(jq -r .text <<<"$args" | wc -w)
  sleep "$(jq -n "$words * $(jq '.pause // 0' <<<"$args")")" & wait $! || exit 1
  if [ "$attempt" = 1 ] && [ "$(jq .fail <<<"$args")" = true ]; then echo "the first attempt fails"; exit 1; fi
  if [ "$words" = 0 ]; then echo "no words"; exit 2; fi
  echo "{\"words\": $words, \"by\": \"shell\"}"
}

while [ -z "$stopping" ]; do
  job=$(jq -nc --arg queue "$queue" --arg lease "${lease}s" --arg wait "${wait}s" --arg worker "shell-$$" \
    '{queues: [$queue], types: ["count"], wait: $wait, lease: $lease, worker: $worker}' | call /v2/leases | jq -c '.jobs[0] // empty') || { sleep 1; continue; }
  [ -n "$job" ] || continue
  token=$(jq -r .token <<<"$job")
  output=$(mktemp)
  count "$(jq -c .args <<<"$job")" "$(jq .attempt <<<"$job")" >"$output" 2>&1 &
  running=$!
  heartbeats "$token" "$running" &
  beats=$!
  while kill -0 "$running" 2>/dev/null; do wait "$running"; done # a signal interrupts wait
  wait "$running"
  status=$?
  kill "$beats" 2>/dev/null
  beats=
  case $status in
  0) acknowledge "$token" complete "{\"result\": $(cat "$output")}" ;;
  *) acknowledge "$token" fail "$(jq -Rsc --argjson permanent "$([ "$status" = 2 ] && echo true || echo false)" \
    '{error: (. | rtrimstr("\n") | if . == "" then "stopped" else . end), permanent: $permanent}' "$output")" ;;
  esac
  rm -f "$output"
done
