#!/usr/bin/env bash
# Proves what docker/packages.sh has built, on the services, in a virtual host and a database of its own: a worker of the image and one of
# the .deb, under its unit, become ready and close orders; archive and .rpm have the same files.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=docker/lib/images.sh
source "$root/docker/lib/images.sh"
# shellcheck source=docker/lib/stack.sh
source "$root/docker/lib/stack.sh"

out=$root/target/packages
place=overdue-packages # virtual host and database
started=()

# Whatever is checked says on failure what it was about.
check() {
  local about=$1
  shift
  "$@" || die 1 "failed: $about"
  say "ok: $about"
}

address() { docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$(containers main "$1")"; }

# Also what an interrupted run has left.
remove() {
  ((${#started[@]} == 0)) || docker rm --force "${started[@]}" >/dev/null
  docker exec "$(containers main rabbitmq)" rabbitmqctl --quiet delete_vhost "$place" >/dev/null 2>&1 || true
  docker exec "$(containers main postgres)" dropdb --username overdue --force --if-exists "$place" 2>/dev/null
}

prepare() {
  trap remove EXIT
  remove
  docker exec "$(containers main rabbitmq)" sh -c \
    "rabbitmqctl --quiet add_vhost $place && rabbitmqctl --quiet set_permissions --vhost $place admin '.*' '.*' '.*'"
  docker exec "$(containers main postgres)" createdb --username overdue "$place"
}

# urls BROKER DATABASE: the lines of the three files of URLs, with these hosts.
urls() {
  echo "amqp://admin:admin@$1:5672/$place"
  echo "http://admin:admin@$1:15672"
  echo "postgres://overdue:overdue@$2:5432/$place?sslmode=disable"
}

# in_image FLAG... -- ARGUMENT...: a command of the image, with hosts that DNS knows.
in_image() {
  local flags=() lines
  while [[ $1 != -- ]]; do flags+=("$1") && shift; done
  mapfile -t lines < <(urls "${broker:-rabbitmq}" "${database:-postgres}")
  docker run --read-only --cap-drop ALL --security-opt no-new-privileges --user 65532 --network "$network" \
    --volume "$root/topology.toml:/etc/overdue/topology.toml:ro" --env OVERDUE_TOPOLOGY=/etc/overdue/topology.toml \
    --env "OVERDUE_BROKER__URL=${lines[0]}" --env "OVERDUE_BROKER__MANAGEMENT_URL=${lines[1]}" \
    --env "OVERDUE_DATABASE__URL=${lines[2]}" "${flags[@]}" "$image" "${@:2}"
}

# until_ready CONTAINER
until_ready() {
  local deadline=$((SECONDS + 60))
  until docker exec "$1" overdue health >/dev/null 2>&1; do
    ((SECONDS < deadline)) || return 1
    sleep 0.2
  done
}

# That of the services is another one, so the answer is no; without any it would be that there are none.
reads_cas() {
  [[ $(in_image --rm --env OVERDUE_BROKER__MANAGEMENT_URL=https://rabbitmq:15671 -- verify 2>&1) == *'no CA that is trusted'* ]]
}

closes_orders() { logged "not every order is as it has to be" in_image --rm -- demo --worker external --orders 200 --after 2s; }

test_image() {
  local worker
  image=$(docker load --quiet --input "$1" | sed 's/^Loaded image: //')
  logged "the image makes no tables" in_image --rm -- database init --reference-tables --yes
  logged "the image makes no topology" in_image --rm -- apply --yes
  check "the image has CAs" reads_cas
  # Its hosts are in /etc/hosts alone.
  worker=$(broker=broker.test database=database.test in_image --detach --add-host "broker.test:$(address rabbitmq)" \
    --add-host "database.test:$(address postgres)" -- run --no-declare)
  started+=("$worker")
  check "the image's worker becomes ready" until_ready "$worker"
  check "the image's worker closes orders" closes_orders
  docker stop "$worker" >/dev/null
}

# has ABOUT FILE...: the standard input, a list of files, has them.
has() {
  local about=$1 list file
  list=$(sed 's,^\./,,; s,^/,,')
  shift
  for file; do
    grep -qxF "$file" <<<"$list" || die 1 "$about lacks $file"
  done
  say "ok: $about has its files"
}

same_files() {
  local files=(bin/overdue lib/systemd/system/overdue.service share/bash-completion/completions/overdue share/man/man1/overdue-run.1.gz
    share/doc/overdue/LICENSE-MIT share/doc/overdue/THIRD-PARTY) archive
  archive=$(basename "$out"/*-linux.tar.gz .tar.gz)
  tar --list --file "$out/$archive.tar.gz" | has "the archive" "${files[@]/#/$archive/}"
  files=("${files[@]/#/usr/}" etc/overdue/example/overdue.toml)
  inside sh -c 'dpkg-deb --fsys-tarfile /packages/*.deb | tar --list' | has "the .deb" "${files[@]}"
  inside sh -c 'rpm --query --list --package /packages/*.rpm' | has "the .rpm" "${files[@]}"
}

inside() { docker exec --interactive "$debian" "$@"; }

unit_starts() {
  local lines
  mapfile -t lines < <(urls rabbitmq postgres)
  inside cp /source/topology.toml /source/docker/settings/overdue.toml /etc/overdue/
  inside tee /etc/overdue/secrets/broker.url <<<"${lines[0]}" >/dev/null
  inside tee /etc/overdue/secrets/management.url <<<"${lines[1]}" >/dev/null
  inside tee /etc/overdue/secrets/database.url <<<"${lines[2]}" >/dev/null
  inside systemctl start overdue
  until_ready "$debian" && return
  inside journalctl --no-pager --unit overdue >&2
  return 1
}

test_packages() {
  choose_base
  build overdue-debian docker --build-arg "BASE=$base" --file docker/debian.Dockerfile
  # systemd mounts, and makes namespaces for the restrictions of the unit.
  debian=$(docker run --detach --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined --cgroupns private \
    --tmpfs /run --tmpfs /tmp --network "$network" --volume "$out:/packages:ro" --volume "$root:/source:ro" overdue-debian)
  started+=("$debian")
  inside systemctl is-system-running --wait >/dev/null || true
  same_files
  check "the .deb is installed" inside sh -c 'dpkg --install /packages/*.deb >/dev/null && overdue --version >/dev/null'
  check "systemd takes the unit" inside systemd-analyze verify --man=no overdue.service
  check "the unit's worker becomes ready" unit_starts
  check "the unit's worker closes orders" closes_orders
  check "the .deb is removed, and its worker stopped" inside sh -c \
    'dpkg --remove overdue >/dev/null && ! systemctl is-active --quiet overdue && [ ! -e /usr/bin/overdue ]'
  # A Debian has no packages for rpm to depend on.
  check "the .rpm is installed" inside sh -c 'rpm --install --nodeps /packages/*.rpm && overdue --version >/dev/null'
}

all() {
  [[ -e $out/SHA256SUMS ]] || die 69 "there are no packages: make packages"
  docker/services.sh up </dev/null
  network=$(project_of main)_default
  (cd "$out" && check "the checksums" sha256sum --check --quiet SHA256SUMS)
  prepare
  test_image "$out"/*-image.tar.gz
  test_packages
}

choose_version "${OVERDUE_RABBITMQ:-4.3}"
with_lock test-packages all
