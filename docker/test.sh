#!/usr/bin/env bash
# Lint, then every test, against services in containers that start meanwhile. With OVERDUE_RABBITMQ
# set to another version than the default, what has nothing to do with the broker is left out. With
# OVERDUE_TEST_ALL=1 it installs what few tests need: Java, Go, PHP, packages of node, promtool, libfaketime, PgBouncer.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

is_default_version() { [[ ${OVERDUE_RABBITMQ:-4.3} == 4.3 ]]; }

# installed FILE FOLDER COMMAND...: runs the command in an empty FOLDER, unless it has done what FILE asks for.
installed() {
  local file=$root/$1 folder=$root/target/$2
  shift 2
  ! cmp --silent "$file" "$folder/installed" || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$file" "$folder/"
  (cd "$folder" && "$@")
  # Copied last: one that was interrupted is made again.
  cp "$file" "$folder/installed"
}

# The interpreter for the tests that act as an order service written in Python.
make_python() {
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null && is_root_on_debian; then
    apt_install python3 python3-venv
  fi
  python3 -m venv .
  bin/python -m pip install --quiet --requirement requirements.txt
}

# The browser for the tests that visit the page, from the distribution, and what drives it. A test that lacks it says so.
make_browser() {
  python3 -m venv .
  bin/python -m pip install --quiet --requirement browser.txt
}

ensure_browser() {
  if ! command -v chromium >/dev/null && is_root_on_debian; then
    (apt_install chromium fonts-dejavu-core) || true
  fi
  command -v chromium >/dev/null && installed tests/python/browser.txt browser make_browser
}

# What OVERDUE_TEST_ALL=1 adds. A test that lacks it says so and is left out.
ensure_all() {
  local lacking=()
  [[ -e /usr/share/java/amqp-client.jar ]] || lacking+=(librabbitmq-client-java)
  [[ -e /usr/share/java/postgresql.jar ]] || lacking+=(libpostgresql-jdbc-java)
  command -v javac >/dev/null || lacking+=(default-jdk-headless)
  command -v go >/dev/null || lacking+=(golang-go)
  [[ -e /usr/share/gocode/src/github.com/rabbitmq/amqp091-go ]] \
    || lacking+=(golang-github-rabbitmq-amqp091-go-dev)
  [[ -e /usr/share/gocode/src/github.com/lib/pq ]] || lacking+=(golang-github-lib-pq-dev)
  [[ -e /usr/share/php/PhpAmqpLib ]] || lacking+=(php-cli php-amqplib)
  php --ri pdo_pgsql >/dev/null 2>&1 || lacking+=(php-pgsql)
  compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || lacking+=(libfaketime)
  if ((${#lacking[@]} > 0)); then
    is_root_on_debian || die 69 "OVERDUE_TEST_ALL needs ${lacking[*]}"
    apt_install "${lacking[@]}"
  fi
  command -v promtool >/dev/null || [[ -x target/prometheus/promtool ]] \
    || logged "could not take promtool out of the package prometheus" extract_promtool
  has_pgbouncer || ! is_root_on_debian || logged "could not build PgBouncer" build_pgbouncer
  installed tests/javascript/package.json node npm install --silent --no-audit --no-fund --no-package-lock
}

# PgBouncer where the distribution's is older than 1.21: trixie's, built here, as it needs little.
build_pgbouncer() (
  local mirror options
  apt_install gcc make pkg-config libevent-dev debian-archive-keyring
  mkdir -p target/pgbouncer/lists/partial && cd target/pgbouncer || exit
  # shellcheck disable=SC2016 # apt's placeholders
  mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' | awk '$1 == "Debian" && $2 ~ /^https?:/ { print $2; exit }')
  [[ -n $mirror ]] || exit 1
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >sources.list
  options=(-o "Dir::Etc::sourcelist=$PWD/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/lists"
    -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache=)
  apt "${options[@]}" update && apt "${options[@]}" source --download-only pgbouncer || exit
  tar --extract --strip-components=1 --file pgbouncer_*.orig.tar.gz || exit
  # Neither TLS nor its own resolver: it talks to this machine alone.
  ./configure --quiet --without-openssl --without-cares && make -j2 pgbouncer
)

has_pgbouncer() {
  local program
  for program in target/pgbouncer/pgbouncer "$(command -v pgbouncer)" /usr/sbin/pgbouncer; do
    [[ ! -x $program ]] || ! "$program" --version | grep -E '^PgBouncer (1\.(2[1-9]|[3-9][0-9])|[2-9])' >/dev/null || return 0
  done
  return 1
}

# The package itself would start a server.
extract_promtool() (
  mkdir -p target/prometheus && cd target/prometheus || exit
  apt-get update || true
  apt-get download --quiet prometheus \
    && dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract --strip-components=3 ./usr/bin/promtool
)

# all_tests [--no-run]
all_tests() {
  if command -v cargo-nextest >/dev/null; then
    cargo nextest run "$@"
  else
    # The example in Rust is run by a test.
    cargo build --examples && cargo test --tests "$@"
  fi
}

# Starts the services, and then installs the other programs that tests need: each step may install packages.
prepare() {
  docker/services.sh up all
  target/python/bin/python --version >/dev/null 2>&1 || rm -rf target/python
  installed tests/python/requirements.txt python make_python
  target/browser/bin/python --version >/dev/null 2>&1 || rm -rf target/browser
  ensure_browser || say "LEFT OUT: the page in a browser: no chromium, or no Playwright"
  if [[ ${OVERDUE_TEST_ALL:-} == 1 ]]; then
    ensure_all
  else
    say "LEFT OUT: order services in Java, Go, JavaScript and PHP, promtool, wrong clocks, a pooler; OVERDUE_TEST_ALL=1 has them"
  fi
}

run_tests() {
  local prepared
  # Tests kill processes, and no machine: what is written survives that without being on disk.
  export OVERDUE_FSYNC=off OVERDUE_WAL_SYNC=none
  # What is built once is not built again a little differently.
  [[ -d $root/target/debug/incremental ]] || export CARGO_INCREMENTAL=0
  # Packages download while the compiler works.
  prepare </dev/null &
  prepared=$!
  if is_default_version; then
    make --no-print-directory lint
    # Licences, advisories and sources of the dependencies.
    if command -v cargo-deny >/dev/null; then
      cargo deny check
    else
      say "cargo-deny is not installed: skipping licences and advisories (cargo install --locked cargo-deny)"
    fi
  fi
  all_tests --no-run
  wait "$prepared"
  export OVERDUE_TEST_PYTHON=$root/target/python/bin/python
  [[ ${OVERDUE_TEST_ALL:-} != 1 ]] || make --no-print-directory prose
  eval "$(docker/services.sh env)"
  # Gigabytes that the compiler wrote are not to stand before what broker and database write.
  sync
  all_tests || {
    docker/services.sh errors >&2 || true
    exit 1
  }
  if is_default_version; then cargo test --doc; fi
  if [[ -z ${OVERDUE_DELAYED_BROKER_URL:-} ]]; then
    say "LEFT OUT: tests/it/delayed.rs, which needs the delayed message exchange plugin; \`make test-delayed\` has it"
  fi
  if [[ -z ${OVERDUE_44_BROKER_URL:-} ]]; then
    say "LEFT OUT: what RabbitMQ 4.4 does with x-opt-delivery-time: OVERDUE_44_BROKER_URL names none (docs/services.md)"
  fi
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
with_lock test run_tests
