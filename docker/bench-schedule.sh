#!/usr/bin/env bash
# What schedule() costs, and how fast its rows become messages: needs psql, pgbench, curl, and the services of docker/services.sh.
#   docker/bench-schedule.sh target/release/overdue [rows] [seconds]
# Publishing: from the commit of `rows` rows to the last one confirmed. Commits: 8 clients that write an order, without schedule(),
# with it, and with it and a NOTIFY in each transaction; one after the other in each round, medians.
set -euo pipefail
overdue=$(realpath "$1") rows=${2:-50000} seconds=${3:-4} rounds=${ROUNDS:-5}
# shellcheck source-path=SCRIPTDIR source=lib/own-shop.sh
. "$(dirname "$0")/lib/own-shop.sh"
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

open_shop '"5s", "30m"' 5s
start_worker

for ((round = 0; round < rounds; round++)); do
    sql "SELECT count(schedule(n, 'unpaid', interval '40 minutes')) FROM generate_series(1, $rows) n" > count
    began=$(date +%s%N)
    until [ "$(sql 'SELECT count(*) FROM (SELECT FROM scheduled_notices LIMIT 1) waiting')" = 0 ]; do sleep 0.01; done
    echo $((rows * 1000000000 / ($(date +%s%N) - began)))
done | tee publish.log | median > publish
echo "published/s         $(cat publish)   $rows rows, from commit to the last confirm ($(tr '\n' ' ' < publish.log))"

order="INSERT INTO $name.orders (id, due_at) VALUES (gen_random_uuid()::text, now() + interval '30 minutes');"
for way in none schedule notify; do
    case $way in
        none) call='SELECT 1;' ;;
        schedule) call="SELECT $name.schedule('4711', 'unpaid', interval '40 minutes');" ;;
        notify) call="SELECT $name.schedule('4711', 'unpaid', interval '40 minutes'), pg_notify('overdue_bench', '');" ;;
    esac
    printf 'BEGIN;\n%s\n%s\nCOMMIT;\n' "$order" "$call" > "$way.sql"
done
for ((round = 0; round < rounds; round++)); do
    for way in none schedule notify; do
        pgbench "$url" -n -c 8 -j 2 -T "$seconds" -M prepared -f $way.sql 2>/dev/null | awk '/^tps/ { print $3 }' >> $way.tps
    done
done
for way in none schedule notify; do echo "commits/s, $way      $(median < $way.tps)   8 clients ($(tr '\n' ' ' < $way.tps))"; done
