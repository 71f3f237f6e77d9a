#!/usr/bin/env bash
# The tests that need a broker with the delayed message exchange plugin, on one that has it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=docker/lib/say.sh
source docker/lib/say.sh
# shellcheck source=docker/lib/lock.sh
source docker/lib/lock.sh

# Cargo is not one of make's jobs, and would warn about a job server that it cannot reach.
unset MAKEFLAGS MFLAGS

run_tests() {
  # First, because it fails at once where the plugin cannot be had.
  docker/services.sh up delayed </dev/null
  eval "$(docker/services.sh env delayed)"
  if command -v cargo-nextest >/dev/null; then
    cargo nextest run --test it --success-output never -E 'test(/^delayed::/)'
  else
    cargo test --test it delayed::
  fi
}

with_lock test-delayed run_tests
