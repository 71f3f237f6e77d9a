#!/usr/bin/env bash
# The demonstration, from nothing: services, topology, a worker as its own process, 2000 orders, of which
# half are paid. Exits as `overdue demo` does.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

target=${CARGO_TARGET_DIR:-target}
overdue=$target/debug/overdue
log=$target/demo-worker.log

# The demo refuses to start while nobody consumes. If the worker never gets there, the demo says so.
await_worker() {
  local deadline=$((SECONDS + 30))
  until grep -qs 'worker ready' "$log" || ((SECONDS > deadline)); do
    kill -0 "$1" 2>/dev/null || { cat "$log" >&2 && die 1 "the worker did not start"; }
    sleep 0.1
  done
}

demo() {
  local services worker result=0
  docker/services.sh up </dev/null &
  services=$!
  cargo build
  wait "$services"
  eval "$(docker/services.sh env)"

  "$overdue" database init --reference-tables --yes
  "$overdue" apply --yes
  "$overdue" run >"$log" 2>&1 </dev/null &
  worker=$!
  await_worker "$worker"
  "$overdue" demo --orders 2000 --after 10s --worker external || result=$?
  # SIGTERM, as an operator would: it finishes what it has in hand, in 30 seconds at the most.
  kill "$worker" 2>/dev/null || true
  wait "$worker" || { say "the worker ended with an error" && result=$((result ? result : 1)); }
  ((result == 0)) || say "the worker's log is $log"
  return "$result"
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
with_lock demo demo
