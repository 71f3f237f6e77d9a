#!/usr/bin/env bash
# Lint, then every test, against services in containers that start meanwhile. With OVERDUE_RABBITMQ
# set to another version than the default, what has nothing to do with the broker is left out.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=docker/lib/say.sh
source docker/lib/say.sh
# shellcheck source=docker/lib/lock.sh
source docker/lib/lock.sh
# shellcheck source=docker/lib/engine.sh
source docker/lib/engine.sh

# Cargo is not one of make's jobs, and would warn about a job server that it cannot reach.
unset MAKEFLAGS MFLAGS

requirements=tests/python/requirements.txt
venv=$root/target/python

is_default_version() { [[ ${OVERDUE_RABBITMQ:-4.3} == 4.3 ]]; }

# The interpreter for the tests that act as an order service written in Python.
ensure_python() {
  [[ -e $requirements ]] || return 0
  export OVERDUE_TEST_PYTHON=$venv/bin/python
  # Copied last: one that was interrupted is made again.
  if cmp --silent "$requirements" "$venv/installed.txt" \
    && "$OVERDUE_TEST_PYTHON" --version >/dev/null; then
    return
  fi
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null && is_root_on_debian; then
    apt_install python3 python3-venv
  fi
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --requirement "$requirements"
  cp "$requirements" "$venv/installed.txt"
}

# amqplib, for the tests that act as a publisher written in JavaScript.
ensure_node() {
  local manifest=tests/javascript/package.json folder=$root/target/node
  cmp --silent "$manifest" "$folder/installed.json" && return
  if ! command -v npm >/dev/null; then
    say "LEFT OUT: the tests in JavaScript, which need node and npm"
    return
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$manifest" "$folder/package.json"
  if (cd "$folder" && npm install --silent --no-audit --no-fund --no-package-lock); then
    cp "$manifest" "$folder/installed.json"
  else
    say "LEFT OUT: the tests in JavaScript: npm could not install what $manifest names"
  fi
}

# Clients, and a compiler, for the examples in Java and Go. Without them their tests leave them out.
ensure_java_and_go() {
  local absent=()
  [[ -e /usr/share/java/amqp-client.jar ]] || absent+=(librabbitmq-client-java)
  command -v javac >/dev/null || absent+=(default-jdk-headless)
  command -v go >/dev/null || absent+=(golang-go)
  [[ -e /usr/share/gocode/src/github.com/rabbitmq/amqp091-go ]] \
    || absent+=(golang-github-rabbitmq-amqp091-go-dev)
  ((${#absent[@]} == 0)) && return
  if ! is_root_on_debian || ! (apt_install "${absent[@]}"); then
    say "LEFT OUT: the examples in Java and Go without ${absent[*]}"
  fi
}

# Prometheus's own tool, for the alerts and the metrics. Taken out of the package, which would install and start a server.
ensure_promtool() {
  local folder=$root/target/prometheus
  command -v promtool >/dev/null && return
  [[ -x $folder/promtool ]] && return
  rm -rf "$folder"
  mkdir -p "$folder"
  if ! is_root_on_debian || ! extract_promtool "$folder"; then
    say "LEFT OUT: promtool's checks of deploy/prometheus and /metrics; it is in the package prometheus"
  fi
}

# A wrong clock, for workers that have one.
ensure_faketime() {
  compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null && return
  if ! is_root_on_debian || ! (apt_install libfaketime); then
    say "LEFT OUT: workers with a wrong clock, which need libfaketime"
  fi
}

extract_promtool() (
  cd "$1"
  apt-get update >/dev/null 2>&1 </dev/null || true
  # As root in a folder that apt's own user may not write to it says so, and does it.
  apt-get download --quiet prometheus >/dev/null 2>&1 </dev/null \
    && dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract ./usr/bin/promtool \
    && mv usr/bin/promtool promtool.new && ./promtool.new --version >/dev/null 2>&1 \
    && rm -r usr prometheus_*.deb && mv promtool.new promtool
)

# Licences, advisories and sources of the dependencies, where the tool is installed.
check_dependencies() {
  if command -v cargo-deny >/dev/null; then
    cargo deny check
  else
    say "cargo-deny is not installed: skipping licences and advisories (cargo install --locked cargo-deny)"
  fi
}

run_tests() {
  local services
  docker/services.sh up all </dev/null &
  services=$!
  if is_default_version; then
    make --no-print-directory lint
    check_dependencies
  fi
  if command -v cargo-nextest >/dev/null; then
    cargo nextest run --no-run
  else
    cargo test --tests --no-run
  fi
  wait "$services"
  # After the services: both may install packages.
  ensure_python
  ensure_node
  ensure_java_and_go
  ensure_promtool
  ensure_faketime
  eval "$(docker/services.sh env)"
  # Gigabytes that the compiler wrote are not to stand before what broker and database write.
  sync
  if command -v cargo-nextest >/dev/null; then
    cargo nextest run
  else
    cargo test --tests
  fi
  if is_default_version; then cargo test --doc; fi
  if [[ -z ${OVERDUE_DELAYED_BROKER_URL:-} ]]; then
    say "LEFT OUT: the tests in tests/it/delayed.rs, which need a broker with the delayed message" \
      "exchange plugin; \`make test-delayed\` runs them"
  fi
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
with_lock test run_tests
