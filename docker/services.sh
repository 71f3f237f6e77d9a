#!/usr/bin/env bash
# Brings RabbitMQ and PostgreSQL for development, demo and tests, in containers. docs/services.md
# is its manual.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=docker/lib/engine.sh
source "$root/docker/lib/engine.sh"
# shellcheck source=docker/lib/images.sh
source "$root/docker/lib/images.sh"
# shellcheck source=docker/lib/stack.sh
source "$root/docker/lib/stack.sh"

usage() {
  cat <<'TEXT'
usage: docker/services.sh COMMAND                 its manual is docs/services.md
  up [STACK|all]       start broker and database, wait until they are healthy; STACK is main (the
                       default), chaos, storm, cluster or delayed; all is main and chaos
  worker               build the worker's image, start main and the worker
  env [STACK]          print the URLs as shell exports: eval "$(docker/services.sh env)"
  errors               print the last errors and alarms that the broker of main has logged, and the disk's free space
  down [STACK]         remove containers, networks and volumes, of storm, cluster or delayed alone if named

OVERDUE_RABBITMQ is the version all this is about: 4.3, the default, or 4.0. Without it, down is about
both.
TEXT
}

urls=(OVERDUE_BROKER__URL OVERDUE_BROKER__MANAGEMENT_URL OVERDUE_DATABASE__URL)

# True where all three URLs are set and lead elsewhere than to this script's own containers: after
# `eval "$(docker/services.sh env)"` they lead there, be it for another version.
uses_own_services() {
  local name given=0 foreign=0 ours
  ours=$(for each in "${versions[@]}"; do choose_version "$each" && print_urls main; done)
  for name in "${urls[@]}"; do
    [[ -n ${!name:-} ]] || continue
    given=$((given + 1))
    grep -qxF "$(print_exports "$name" "${!name}")" <<<"$ours" || foreign=$((foreign + 1))
  done
  ((given == 3 || foreign == 0)) || die 64 "set all of ${urls[*]}, or none"
  ((foreign > 0))
}

up() {
  ensure_engine
  if [[ $1 == delayed ]]; then choose_delayed_images; else choose_images; fi
  start_stacks "$@"
  [[ $1 != delayed ]] || require_delayed_type
}

worker() {
  local administrator=(compose main --profile worker run --rm --no-deps -T topology) grants
  [[ -f $root/topology.toml ]] || die 78 "there is no topology.toml to mount into the worker"
  up main
  build_worker
  # Closing orders needs the tables; creating them a second time changes nothing.
  logged "the worker could not prepare the database" \
    "${administrator[@]}" database init --reference-tables --yes
  grants=$("${administrator[@]}" permissions --database --create-users </dev/null) || die 69 "the grants could not be printed"
  # psql goes on after what is there already: the schema, and from the second time on the roles.
  docker exec --interactive "$(containers main postgres)" psql --quiet --username overdue overdue >/dev/null 2>&1 \
    <<<"$grants"$'\n'"ALTER ROLE overdue_worker PASSWORD 'overdue_worker';" || die 69 "the grants could not be made"
  logged "the topology could not be applied" "${administrator[@]}"
  logged "compose could not start the worker" \
    compose main --profile worker up --detach --no-build --no-deps worker
  wait_healthy main worker
  say "the worker runs; \`docker logs --follow $(container_name main worker)\` shows what it does"
}

down() {
  if ! engine_answers; then
    say "no container engine answers: nothing to remove"
    return
  fi
  local each stack
  for each in ${OVERDUE_RABBITMQ:-"${versions[@]}"}; do
    choose_version "$each"
    for stack in "${!above[@]}"; do remove_stack "$stack"; done
  done
  stop_dockerd
}

# For a failure whose reason is the broker's.
errors() {
  local broker
  broker=$(containers main rabbitmq 2>/dev/null)
  [[ -n $broker ]] || die 69 "the broker of main does not run"
  # Refused logins and closed channels are what tests ask for.
  docker logs "$broker" 2>&1 | grep -E '\[(warning|error|critical|emergency)\]' \
    | cut -c1-300 | tail -n 40 || true
  df -h "$root" | tail -n 1
}

choose_version "${OVERDUE_RABBITMQ:-4.3}"
[[ ${2:-} != delayed ]] || choose_version 4.0

# What runs in the background does not outlive this script.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

case "${1:-} ${2:-}" in
  # `make chaos` needs containers that it can kill, and `make test-delayed` a plugin, whatever
  # services the shell names.
  "up storm" | "up cluster" | "up delayed") with_lock services "$@" ;;
  "up " | "up main" | "up chaos" | "up all")
    if uses_own_services; then
      say "using the services that ${urls[0]} and the others name; nothing is started"
    elif [[ ${2:-} == all ]]; then
      with_lock services up main chaos
    else
      with_lock services up "${2:-main}"
    fi
    ;;
  "worker ") with_lock services worker ;;
  "env storm" | "env cluster" | "env delayed") print_urls "$2" ;;
  "env " | "env main" | "env chaos")
    if uses_own_services; then
      for name in "${urls[@]}" OVERDUE_BROKER__STATISTICS_INTERVAL; do print_exports "$name" "${!name:-}"; done
    else
      print_urls main
      print_tls_urls
      print_urls chaos
    fi
    ;;
  "down storm" | "down cluster" | "down delayed") with_lock services remove_stack "$2" ;;
  "errors ") errors ;;
  "down ") with_lock services down ;;
  "help " | "--help " | "-h ") usage ;;
  *) usage >&2 && exit 64 ;;
esac
