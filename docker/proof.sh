#!/usr/bin/env bash
# The long job: each part is a function, PART=name runs it alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=$PWD/target/proof/build
core=target/proof/core

needs() {
    command -v "$1" >/dev/null || { echo "$1 is missing: cargo install --locked $1" >&2; exit 69; }
}

# CASES sequences of topologies, publishers, workers, crashes and late counts: tests/pure/life.rs.
model() {
    docker/core_crate.sh
    (cd "$core" && PROPTEST_CASES=${CASES:-20000} cargo test -q --release --test pure life:: -- --include-ignored)
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

# Of the core rooms, or of ROOM, SHARD=0/20 of the mutants; what is not caught is in target/proof/core/mutants.out. A test binary
# stops at its first failure, which it does only for who may use what is unstable.
mutants() {
    needs cargo-mutants
    docker/core_crate.sh
    local room files=()
    for room in ${ROOM:-plan topology ladder decisions wire order parking permissions}; do
        files+=(-f "src/$room.rs" -f "src/$room/**")
    done
    (cd "$core" && CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env RUSTC_BOOTSTRAP=1" PROPTEST_CASES=8 INSTA_UPDATE=no cargo mutants --in-place --no-shuffle --sharding round-robin \
        --shard "${SHARD:-0/20}" --minimum-test-timeout 120 "${files[@]}" \
        -- --test pure -- --skip life::known_faults -Z unstable-options --fail-fast)
}

# What publishes, in SCHEDULES orders of its tasks that shuttle chooses: proof/shuttle.
shuttle() {
    (cd proof/shuttle && cargo run -q -- "${SCHEDULES:-100000}")
}

parts=(model shuttle fuzz mutants)
for part in ${PART:-${parts[*]}}; do
    [[ " ${parts[*]} " == *" $part "* ]] || { echo "there is no part $part: ${parts[*]}" >&2; exit 64; }
    echo "== $part"
    "$part"
done
