#!/usr/bin/env bash
# usage: upgrade.sh [TAG]: the tests in tests/it/released.rs with the program of a release, by default the newest one that this
# clone has, which is built once.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# build_release TAG FILE
build_release() {
  local source=$root/target/released/source
  rm -rf "$source"
  mkdir -p "$source"
  git archive "$1" | tar -x -C "$source"
  say "building $1"
  # A folder of its own: cargo would take its program for this version's.
  cargo build --locked --quiet --manifest-path "$source/Cargo.toml" --target-dir target/released/build
  cp target/released/build/debug/overdue "$2"
}

upgrade() {
  local tag=${1:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)} binary
  if [[ -z $tag ]] || ! git rev-parse --quiet --verify "$tag^{commit}" >/dev/null; then
    die 69 "this clone has no release${tag:+ $tag}: git fetch --tags"
  fi
  binary=$root/target/released/overdue-$(git rev-parse "$tag^{commit}")
  [[ -x $binary ]] || build_release "$tag" "$binary"
  docker/services.sh up </dev/null
  eval "$(docker/services.sh env)"
  OVERDUE_RELEASED_BINARY=$binary cargo test --test it released::
}

with_lock upgrade upgrade "$@"
