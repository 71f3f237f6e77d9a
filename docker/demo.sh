#!/usr/bin/env bash
# The demonstration, from nothing: services, topology, a worker as its own process, 2000 orders, of which
# half are paid. Exits as `overdue demo` does.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

target=${CARGO_TARGET_DIR:-target}
overdue=$target/debug/overdue
log=$target/demo-worker.log
worker=

# stop_worker: SIGTERM, as an operator would; its exit code is the result.
stop_worker() {
  local pid=$worker deadline=$((SECONDS + 45))
  worker=
  [[ -n $pid ]] || return 0
  kill "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do
    if ((SECONDS > deadline)); then
      kill -KILL "$pid" 2>/dev/null || true
      say "the worker did not stop within 45 seconds"
    fi
    sleep 0.1
  done
  wait "$pid"
}

# The demo refuses to start while nobody consumes. If the worker never gets there, the demo says so.
await_worker() {
  local deadline=$((SECONDS + 30))
  until grep -qs 'worker ready' "$log" || ((SECONDS > deadline)); do
    if ! kill -0 "$worker" 2>/dev/null; then
      cat "$log" >&2
      die 1 "the worker did not start"
    fi
    sleep 0.1
  done
}

cleanup() {
  stop_worker || true
  # shellcheck disable=SC2046 # a list of pids
  kill $(jobs -p) 2>/dev/null || true
}
trap cleanup EXIT

demo() {
  local services result=0
  docker/services.sh up </dev/null &
  services=$!
  cargo build
  wait "$services"
  eval "$(docker/services.sh env)"

  "$overdue" database init --reference-tables
  "$overdue" apply --yes
  "$overdue" run >"$log" 2>&1 </dev/null &
  worker=$!
  await_worker
  "$overdue" demo --orders 2000 --after 10s --worker external || result=$?
  if ! stop_worker; then
    say "the worker ended with an error"
    ((result != 0)) || result=1
  fi
  ((result == 0)) || say "the worker's log is $log"
  return "$result"
}

with_lock demo demo
