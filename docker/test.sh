#!/usr/bin/env bash
# Lint, then every test, against services in containers that start meanwhile. With OVERDUE_RABBITMQ
# set to another version than the default, what has nothing to do with the broker is left out. With
# OVERDUE_TEST_ALL=1 it installs what few tests need: Java, Go, node's amqplib, promtool, libfaketime.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

is_default_version() { [[ ${OVERDUE_RABBITMQ:-4.3} == 4.3 ]]; }

# The interpreter for the tests that act as an order service written in Python.
ensure_python() {
  local requirements=tests/python/requirements.txt venv=$root/target/python
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

# ensure_all: what OVERDUE_TEST_ALL=1 adds. A test that lacks it says so and is left out.
ensure_all() {
  local lacking=() folder=$root/target/prometheus
  [[ -e /usr/share/java/amqp-client.jar ]] || lacking+=(librabbitmq-client-java)
  command -v javac >/dev/null || lacking+=(default-jdk-headless)
  command -v go >/dev/null || lacking+=(golang-go)
  [[ -e /usr/share/gocode/src/github.com/rabbitmq/amqp091-go ]] \
    || lacking+=(golang-github-rabbitmq-amqp091-go-dev)
  compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || lacking+=(libfaketime)
  if ((${#lacking[@]} > 0)); then
    is_root_on_debian || die 69 "OVERDUE_TEST_ALL needs ${lacking[*]}"
    apt_install "${lacking[@]}"
  fi
  if ! command -v promtool >/dev/null && [[ ! -x $folder/promtool ]]; then
    logged "could not take promtool out of the package prometheus" extract_promtool "$folder"
  fi
  folder=$root/target/node
  if ! cmp --silent tests/javascript/package.json "$folder/installed.json"; then
    rm -rf "$folder"
    mkdir -p "$folder"
    cp tests/javascript/package.json "$folder/"
    (cd "$folder" && npm install --silent --no-audit --no-fund --no-package-lock)
    cp tests/javascript/package.json "$folder/installed.json"
  fi
}

# The package itself would start a server.
extract_promtool() (
  mkdir -p "$1" && cd "$1" || exit
  apt-get update || true
  apt-get download --quiet prometheus \
    && dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract --strip-components=3 ./usr/bin/promtool
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
  if [[ ${OVERDUE_TEST_ALL:-} == 1 ]]; then
    ensure_all
  else
    say "LEFT OUT: order services in Java, Go and JavaScript, promtool, wrong clocks; OVERDUE_TEST_ALL=1 has them"
  fi
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
    say "LEFT OUT: tests/it/delayed.rs, which needs the delayed message exchange plugin; \`make test-delayed\` has it"
  fi
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
with_lock test run_tests
