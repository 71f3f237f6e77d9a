#!/usr/bin/env bash
# Lint, then every test, against services in containers that start meanwhile.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=docker/lib/turn.sh
source docker/lib/turn.sh
# shellcheck source=docker/lib/say.sh
source docker/lib/say.sh
# shellcheck source=docker/lib/engine.sh
source docker/lib/engine.sh

requirements=tests/python/requirements.txt
venv=$root/target/python

# The interpreter for the tests that act as an order service written in Python.
ensure_python() {
  [[ -e $requirements ]] || return 0
  export OVERDUE_TEST_PYTHON=$venv/bin/python
  # Copied last: one that was interrupted is made again.
  if cmp --silent "$requirements" "$venv/installed.txt" \
    && "$OVERDUE_TEST_PYTHON" --version >/dev/null; then
    return
  fi
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null && is_root_on_debian; then
    apt_install python3 python3-venv
  fi
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --requirement "$requirements"
  cp "$requirements" "$venv/installed.txt"
}

run_tests() {
  local services
  docker/services.sh up all </dev/null &
  services=$!
  make --no-print-directory lint
  if command -v cargo-nextest >/dev/null; then
    cargo nextest run --no-run
  else
    cargo test --tests --no-run
  fi
  wait "$services"
  # After the services: both may install packages.
  ensure_python
  eval "$(docker/services.sh env)"
  if command -v cargo-nextest >/dev/null; then
    cargo nextest run
  else
    cargo test --tests
  fi
  cargo test --doc
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
take_turn test run_tests
