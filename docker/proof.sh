#!/usr/bin/env bash
# The long job: each part is a function, PART=name runs it alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=$PWD/target/proof/build
core=target/proof/core

needs() {
    command -v "$1" >/dev/null || { echo "$1 is missing: cargo install --locked $1" >&2; exit 69; }
}

# CASES sequences of topologies, publishers, workers, crashes and late counts: tests/pure/life.rs. Then 2,000 cases of each other property.
model() {
    docker/core_crate.sh
    (cd "$core" && PROPTEST_CASES=${CASES:-20000} cargo test -q --release --test pure life:: -- --include-ignored \
        && PROPTEST_CASES=2000 cargo test -q --release --test pure -- --skip life::)
}

# What `make test` has a sample of: every order of the interleavings, every right taken away, queues that do not answer for minutes.
services() {
    local target=$PWD/target
    docker/services.sh up all
    eval "$(docker/services.sh env)"
    CARGO_TARGET_DIR=$target cargo nextest run --run-ignored only -E 'binary(it) | binary(chaos) & not test(/^storm::/)'
}

# Each target for FUZZ_SECONDS, or RUNS inputs each, as before a release: RUNS=10000000.
fuzz() {
    needs cargo-fuzz
    docker/core_crate.sh
    local limit="-max_total_time=${FUZZ_SECONDS:-60}" target
    [ -z "${RUNS:-}" ] || limit="-runs=$RUNS"
    # The code has no `unsafe`, so there is nothing that a sanitizer would see, and stable Rust will do.
    for target in ${TARGET:-$(cargo fuzz list)}; do
        # What is found goes to the first folder; the corpus of the repository stays small.
        mkdir -p "target/proof/corpus/$target"
        CARGO_TARGET_DIR=$PWD/target/proof/fuzz cargo fuzz run -s none "$target" "target/proof/corpus/$target" "fuzz/corpus/$target" \
            -- "$limit" -print_final_stats=1 -verbosity=0 -rss_limit_mb=1024 -timeout=20
    done
}

parts=(model services fuzz)
for part in ${PART:-${parts[*]}}; do
    [[ " ${parts[*]} " == *" $part "* ]] || { echo "there is no part $part: ${parts[*]}" >&2; exit 64; }
    echo "== $part"
    "$part"
done
