# shellcheck shell=bash
# shellcheck disable=SC2154 # `overdue` is set by whoever sources this
# For a benchmark: a virtual host, a schema and a folder of its own, which all go at its end. Sourced, with `overdue` set.

url=$OVERDUE_DATABASE__URL api=$OVERDUE_BROKER__MANAGEMENT_URL
name=overdue_bench_$$
folder=$(mktemp -d)
worker=

stop_worker() {
    if [ -n "$worker" ] && kill "$worker" 2>/dev/null; then
        wait "$worker" 2>/dev/null || true
    fi
    worker=
}

remove_shop() {
    stop_worker
    psql "$url" -qc "DROP SCHEMA IF EXISTS $name CASCADE" 2>/dev/null || true
    curl -sf -X DELETE "$api/api/vhosts/$name" || true
    rm -rf "$folder"
}
trap remove_shop EXIT

sql() { psql "$url" -XAtqc "SET search_path TO $name" -c "$1"; }

# open_shop LEVELS RETRY: tables and a topology file, in the folder where everything happens from now on.
open_shop() {
    curl -sf -X PUT "$api/api/vhosts/$name"
    export OVERDUE_BROKER__URL=${OVERDUE_BROKER__URL%/*}/$name OVERDUE_DATABASE__SEARCH_PATH=$name OVERDUE_WORKER__LISTEN=
    cd "$folder" || exit 1
    printf 'name = "orders"\n[delay]\nlevels = [%s]\n[[timeout]]\nname = "unpaid"\nafter = "30m"\neffect = "close"\n[retry]\nafter = ["%s"]\n' \
        "$1" "$2" > topology.toml
    "$overdue" database init --reference-tables > init.log
}

start_worker() {
    "$overdue" run 2> worker.log & worker=$!
    until grep -q 'worker ready' worker.log; do sleep 0.1; done
}

# measured TEXT ARGUMENTS: seconds, seconds of CPU, MiB; what it prints goes into out.log.
measured() {
    local text=$1
    shift
    /usr/bin/time -o time.log -f '%e %U %S %M' "$overdue" "$@" > out.log 2> err.log < /dev/null || { cat err.log >&2; exit 1; }
    awk -v text="$text" '{ printf "%-62s %6.1f s  %5.1f s CPU  %4d MiB\n", text, $1, $2 + $3, $4 / 1024 }' time.log
}
