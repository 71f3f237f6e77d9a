#!/usr/bin/env bash
# What `overdue rebuild` costs with many open orders: needs psql, curl, GNU time, and the services of docker/services.sh.
#   docker/bench-rebuild.sh target/release/overdue [orders]
# The preview alone, then everything as fast as it goes.
set -euo pipefail
overdue=$(realpath "$1") orders=${2:-1000000}
# shellcheck source-path=SCRIPTDIR source=lib/own-shop.sh
. "$(dirname "$0")/lib/own-shop.sh"

open_shop '"1m", "30m"' 1m
"$overdue" apply --yes > apply.log
sql "INSERT INTO orders (id, due_at)
    SELECT 'o-' || n, now() + interval '40 minutes' + n * interval '1 ms' FROM generate_series(1, $orders) n"
sql 'VACUUM ANALYZE orders'
echo "$orders open orders"
for _ in 1 2 3; do measured 'rebuild, shown and not done' rebuild; done
measured 'rebuild --rate 100000 --yes' rebuild --rate 100000 --yes
grep -q "published $orders notices, all confirmed" out.log
