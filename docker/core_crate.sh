#!/usr/bin/env bash
# Writes the core rooms and the pure tests of them as a crate of their own to target/proof/core, and beside them what else reads
# what others write: settings and frames. It is built in seconds, with a model or a fuzzer. Of
# `internals` it has what those rooms have.
set -euo pipefail
cd "$(dirname "$0")/.."
core=target/proof/core
rooms=$(sed -n 's/^| \*\*\([a-z]*\)\*\* | core |.*/\1/p' ARCHITECTURE.md)
rooms="$rooms config"
rm -rf "$core"
mkdir -p "$core/src" "$core/tests"
for room in $rooms; do
    cp -p "src/$room.rs" "$core/src/"
    [ ! -d "src/$room" ] || cp -rp "src/$room" "$core/src/"
done
mkdir "$core/src/messaging"
cp -rp src/messaging/frames src/messaging/frames.rs src/messaging/large_bodies.rs "$core/src/messaging/"
mkdir "$core/examples"
cp -p examples/ladder-vectors.json "$core/examples/"
cp -rp sql docs topology.toml Cargo.lock "$core/"
cp -rp tests/pure tests/support tests/proptest-regressions "$core/tests/"

# What another room has is left out, statement by statement.
awk -v rooms=" $(echo "$rooms" | tr '\n' ' ')" '
    /^ *pub use / { statement = ""; keep = 1; inside = 1 }
    !inside { print; next }
    { statement = statement $0 "\n"
      if (match($0, /crate::[a-z_]+/) && !index(rooms, " " substr($0, RSTART + 7, RLENGTH - 7) " ")) keep = /crate::messaging::(frames|large_bodies)/ }
    /;$/ { if (keep) printf "%s", statement; inside = 0 }
' src/internals.rs >"$core/src/internals.rs"

{
    echo '#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]'
    echo 'pub mod internals;'
    for room in $rooms; do echo "mod $room;"; done
    echo 'mod messaging { pub(crate) mod frames; pub(crate) mod large_bodies; }'
} >"$core/src/lib.rs"

# Tests of other rooms, or of the repository.
for name in alerting architecture built_in_effects database_clock documents kept_bytes log_lines metrics secret sqlstate; do
    sed -i "/^mod $name;\$/d" "$core/tests/pure/main.rs"
done

dependency() { grep -E "^$1 = " Cargo.toml | head -n 1; }
{
    sed -n '/^\[package\]/,/^$/p' Cargo.toml | grep -E '^(\[package\]|name|version|edition|rust-version)'
    printf '\n[workspace]\n\n[features]\notlp = []\n\n[dependencies]\n'
    for crate in annotate-snippets fancy-regex figment jiff lapin parking_lot rustix schemars serde serde_json strsim thiserror toml url; do dependency "$crate"; done
    printf '\n[dev-dependencies]\n'
    for crate in insta proptest; do dependency "$crate"; done
    printf '\n[profile.dev]\ndebug = false\n[profile.dev.package.proptest]\nopt-level = 1\n'
} >"$core/Cargo.toml"
