#!/usr/bin/env bash
# A night on call in three minutes: four faults on containers that nothing else uses. For each of them what `overdue status`,
# /readyz and the alert say, and the command of the runbook that ends it. Prints the transcript as Markdown.
#   docker/night-drill.sh [target/release/overdue [docs/dashboard.svg]] > docs/night-drill.md
# With a second argument a Prometheus (package prometheus) looks on, and the dashboard of deploy/grafana is drawn from it.
# shellcheck disable=SC2016 # what is printed has backticks, as Markdown has
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=docker/lib/say.sh
source docker/lib/say.sh

overdue=$(realpath "${1:-target/debug/overdue}")
port=${OVERDUE_NIGHT_PORT:-29640}
picture=''
[[ -z ${2:-} ]] || picture=$(realpath "$2")
folder=$(mktemp -d)
worker='' webhook='' prometheus=''

cleanup() {
  local pid
  for pid in $worker $webhook $prometheus; do kill "$pid" 2>/dev/null || true; done
  "$root/docker/services.sh" down storm >&2 || true
  rm -rf "$folder"
}
trap cleanup EXIT

docker/services.sh up storm </dev/null >&2
eval "$(docker/services.sh env storm)"
broker_container=$OVERDUE_CHAOS_BROKER_CONTAINER
export OVERDUE_BROKER__URL=$OVERDUE_CHAOS_BROKER_URL OVERDUE_BROKER__MANAGEMENT_URL=$OVERDUE_CHAOS_MANAGEMENT_URL
export OVERDUE_BROKER__STATISTICS_INTERVAL=1s OVERDUE_BROKER__DEAD_LETTER_SLOTS=1000
export OVERDUE_DATABASE__URL=$OVERDUE_CHAOS_DATABASE_URL OVERDUE_DATABASE__SEARCH_PATH=overdue,public
cd "$folder"

# What somebody's chat gets: the text of each message, and when.
cat > webhook.py <<'PYTHON'
import http.server, json, sys
class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("alerts.log", "a") as log:
            log.write(body["text"] + "\n")
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Webhook).serve_forever()
PYTHON
touch alerts.log
python3 webhook.py $((port + 1)) & webhook=$!

cat > topology.toml <<'TOML'
name = "orders"
[delay]
levels = ["1s", "2s", "30m"]
[[timeout]]
name = "unpaid"
after = "2s"
effect = "close"
[retry]
after = ["1s", "2s"]
TOML
cat > overdue.toml <<TOML
[worker]
listen = "127.0.0.1:$port"
sweep_every = "2s"
sweep_grace = "2s"
stuck_after = "6s"
watch_every = "1s"
[[alert]]
name = "on-call"
format = "json"
url = "http://127.0.0.1:$((port + 1))/"
late_after = "3s"
not_ready_for = "2s"
over_after = "4s"
at_most_every = "1s"
TOML

psql() { PGOPTIONS="-c search_path=overdue,public ${PGOPTIONS:-}" command psql "${OVERDUE_CHAOS_DATABASE_URL%%\?*}" -X "$@"; }
sql() { psql -Atqc "$1"; }
# orders PREFIX COUNT SKU: written with their deadline, in one transaction.
orders() {
  sql "BEGIN;
       INSERT INTO orders (id, due_at) SELECT '$1-' || n, schedule('$1-' || n, 'unpaid', interval '2 seconds')
       FROM generate_series(1, $2) n;
       UPDATE stock SET available = available - $2, reserved = reserved + $2 WHERE sku = '$3';
       INSERT INTO order_items (order_id, sku, qty) SELECT '$1-' || n, '$3', 1 FROM generate_series(1, $2) n;
       COMMIT" >/dev/null
}
open_orders() { sql "SELECT count(*) FROM orders WHERE status = 'unpaid'"; }
until_true() {
  local deadline=$((SECONDS + 90))
  until eval "$1"; do
    ((SECONDS < deadline)) || die 1 "not within 90 s: $1"
    sleep 0.2
  done
}
alerts_say() { tail -n +"$seen" alerts.log | grep -q "^- $1"; }
mark() { seen=$(($(wc -l < alerts.log) + 1)); }
# run COMMAND: as somebody types it, with what it prints.
run() {
  printf '\n```console\n$ %s\n' "$1"
  { eval "$1" 2>&1 || true; } | sed "s|$folder/||g; s|$(hostname)|shop-1|g"
  printf '```\n'
}
look() {
  run 'overdue status'
  run "curl -s http://127.0.0.1:$port/readyz"
  printf '\nThe alert:\n\n```text\n'
  tail -n +"$seen" alerts.log | sed "s|$(hostname)|shop-1|g"
  printf '```\n'
}
# As somebody looks some seconds later: counts of the broker are that old.
says() { [[ $(overdue status) == *"$1"* ]]; }
until_counted() { until_true "says 'parked ' && ! says '##' && ! says 'are parked'"; }
none_open() { [[ $(open_orders) == 0 ]]; }
all_is_well() {
  until_true none_open
  until_true "curl -sf http://127.0.0.1:$port/readyz >/dev/null"
}
overdue() { "$overdue" "$@"; }

if [[ -n $picture ]]; then
  cat > prometheus.yml <<YAML
global: {scrape_interval: 1s}
scrape_configs: [{job_name: overdue, static_configs: [{targets: ["127.0.0.1:$port"]}]}]
YAML
  prometheus --config.file=prometheus.yml --storage.tsdb.path=series --web.listen-address="127.0.0.1:$((port + 2))" \
    2> prometheus.log & prometheus=$!
fi
began=$SECONDS

{
  overdue database init --reference-tables
  sql "INSERT INTO stock (sku, available, reserved) VALUES ('tea', 1000000, 0), ('pot', 1000000, 0)"
  overdue apply --yes
  "$overdue" run 2> worker.log &
  worker=$!
  until_true 'grep -q "worker ready" worker.log'
  mark
  orders quiet 50 tea
  all_is_well
} >&2

cat <<'MARKDOWN'
# A night on call

What whoever is on call sees, and types. Printed by [docker/night-drill.sh](../docker/night-drill.sh), which does all this to a broker, a
database and a worker of its own; with shorter times than yours: a level of 2 s, a sweep every 2 s, alerts at once. The
order service writes orders with [`schedule()`](publishing-from-sql.md). Each alert names its [runbook](runbooks.md).

[The dashboard](dashboard.svg) of these minutes: the queries of `deploy/grafana/overdue.json`, asked of the Prometheus that looked on, and drawn
by `deploy/grafana/picture.py`.

## Before
MARKDOWN
until_counted
run 'overdue status'

echo; echo '## 1. The broker is killed'
mark
docker kill "$broker_container" >/dev/null
orders broker 30 tea
until_true "alerts_say 'not-ready'"
until_true none_open
printf '\n%s\n' 'Orders go on being closed: the sweep does it, later than the messages would.'
look
printf '\n%s\n' 'The runbook: [OverdueWorkerNotReady](runbooks.md#overdueworkernotready), `broker`. What ends it:'
run "docker start $broker_container"
all_is_well
orders after 30 tea
all_is_well
printf '\n%s\n' 'The worker has found it again by itself:'
run 'overdue status | head -3'

echo; echo '## 2. The database takes no writes'
mark
sql "ALTER SYSTEM SET default_transaction_read_only = on" >/dev/null
sql "SELECT pg_reload_conf()" >/dev/null
PGOPTIONS='-c default_transaction_read_only=off' orders readonly 30 tea
until_true "alerts_say 'not-ready'"
look
printf '\n%s\n' 'The runbook: [OverdueClosingFails](runbooks.md#overdueclosingfails). Nothing is parked, no retry is used up. What ends it:'
run "psql -c 'ALTER SYSTEM RESET default_transaction_read_only' -c 'SELECT pg_reload_conf()'"
all_is_well
run 'overdue status | head -3'

echo; echo '## 3. A flood of garbage'
mark
flood() {
  local base=$OVERDUE_BROKER__MANAGEMENT_URL body
  body='{"properties":{"delivery_mode":2},"routing_key":"1s.unpaid","payload":"not an order at all \u0007","payload_encoding":"string"}'
  seq 1 300 | xargs -P 4 -I{} curl -sf -o /dev/null -X POST -H 'content-type: application/json' -d "$body" \
    "$base/api/exchanges/%2f/orders.in/publish"
}
flood >&2
orders beside 30 tea
until_true "alerts_say 'parked'"
until_true none_open
until_true "says '300 messages are parked'"
printf '\n%s\n' 'Good orders beside it are closed in time.'
look
printf '\n%s\n' 'The runbook: [OverdueParked](runbooks.md#overdueparked). What is it, and away with it:'
run 'overdue parked list --limit 3'
run "overdue parked drop --reason 'white space' --because 'garbage of a test client, night of the 12th' --yes | tail -1"
until_counted
run 'overdue status | head -3'

echo; echo '## 4. An effect that fails for one SKU'
mark
orders pots 12 pot
sql "ALTER TABLE stock ADD CONSTRAINT no_pots_back CHECK (sku <> 'pot' OR available <= 999988)" >/dev/null
orders teas 30 tea
until_true "alerts_say 'parked'"
until_true "says 'their messages are parked'"
look
run 'overdue parked list --limit 2'
printf '\n%s\n' 'The runbook: [OverdueOrdersNotClosed](runbooks.md#overdueordersnotclosed). What PostgreSQL says names the constraint; somebody had added it. What ends it:'
run "psql -c 'ALTER TABLE stock DROP CONSTRAINT no_pots_back'"
run 'overdue parked replay --yes'
all_is_well
until_counted
run 'overdue status'
[[ -z $picture ]] || "$root/deploy/grafana/picture.py" --prometheus "http://127.0.0.1:$((port + 2))" \
  --seconds $((SECONDS - began)) --rate-interval 10s > "$picture"
kill "$worker"
wait "$worker" || true
worker=
