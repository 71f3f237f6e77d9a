#!/usr/bin/env bash
# What the commands of the parking lot cost with many messages in it: needs psql, curl, jq, GNU time, and the services of
# docker/services.sh.
#   docker/bench-parked.sh target/release/overdue [messages]
# A worker parks them: orders that the database does not know, after a retry. Then the orders are written, all of them overdue.
set -euo pipefail
overdue=$(realpath "$1") messages=${2:-100000}
# shellcheck source-path=SCRIPTDIR source=lib/own-shop.sh
. "$(dirname "$0")/lib/own-shop.sh"
ready() { curl -sf "$api/api/queues/$name/orders.parked" | jq '.messages_ready // 0'; }
until_ready() { until [ "$(ready)" = "$1" ]; do sleep 0.5; done; }

open_shop '"100ms", "30m"' 100ms
start_worker
seq 1 "$messages" | sed 's/.*/{"order_id":"o-&"}/' | "$overdue" publish --level 100ms > publish.log
until_ready "$messages"
stop_worker
sql "INSERT INTO orders (id, due_at) SELECT 'o-' || n, now() - interval '1 minute' FROM generate_series(1, $messages) n; ANALYZE orders"

echo "$messages messages in the parking lot"
measured 'parked list' parked list
until_ready "$messages"
measured 'parked list --order o-777 --newer-than 1h' parked list --order o-777 --newer-than 1h
until_ready "$messages"
measured 'parked list --reason "does not know" --timeout unpaid' parked list --reason 'does not know' --timeout unpaid
until_ready "$messages"
measured 'parked list -o json --limit 0' parked list -o json --limit 0
[ "$(jq '.messages | length' out.log)" = "$messages" ]
until_ready "$messages"
measured 'parked show --order o-711' parked show --order o-711
until_ready "$messages"
measured 'parked drop --order o-711 --because test --yes' parked drop --order o-711 --because test --yes
until_ready $((messages - 1))
measured 'parked replay --order o-712 --yes' parked replay --order o-712 --yes
until_ready $((messages - 2))
measured 'parked replay, shown and not done' parked replay < /dev/null
until_ready $((messages - 2))
half=$(seq 1 2 "$messages" | head -n 100 | sed 's/^/--order o-/')
# shellcheck disable=SC2086 # words
measured 'parked drop of 100 orders' parked drop $half --because test --yes
measured 'parked replay --rate 100000 --yes of the rest' parked replay --rate 100000 --yes
until_ready 0
