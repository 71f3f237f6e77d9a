#!/usr/bin/env bash
# The tests that need a broker with the delayed message exchange plugin, on one that has it.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

run_tests() {
  # First, because it fails at once where the plugin is missing.
  docker/services.sh up delayed </dev/null
  eval "$(docker/services.sh env delayed)"
  if command -v cargo-nextest >/dev/null; then
    cargo nextest run --test it --success-output never -E 'test(/^delayed::/)'
  else
    cargo test --test it delayed::
  fi
}

with_lock test-delayed run_tests
