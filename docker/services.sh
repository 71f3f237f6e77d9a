#!/usr/bin/env bash
# Brings RabbitMQ and PostgreSQL for development, demo and tests, in containers. docs/services.md
# is its manual.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=docker/lib/say.sh
source "$root/docker/lib/say.sh"
# shellcheck source=docker/lib/lock.sh
source "$root/docker/lib/lock.sh"
# shellcheck source=docker/lib/engine.sh
source "$root/docker/lib/engine.sh"
# shellcheck source=docker/lib/images.sh
source "$root/docker/lib/images.sh"
# shellcheck source=docker/lib/stack.sh
source "$root/docker/lib/stack.sh"

usage() {
  cat <<'TEXT'
usage: docker/services.sh COMMAND
  up [STACK|all]       start broker and database, wait until they are healthy; STACK is main (the
                       default), chaos (a second pair, which the fault tests stop and start), storm
                       (a third, for `make chaos`) or cluster (three brokers and a database, for
                       `make chaos CLUSTER=3`); all is main and chaos
  worker               build the worker's image, start main and the worker
  env [STACK]          print the URLs as shell exports: eval "$(docker/services.sh env)"; those of
                       storm and cluster under the names that chaos has otherwise; main over TLS as
                       OVERDUE_TLS_BROKER_URL and so on, with its certificates in target/tls
  status               list the containers
  logs                 the last lines of every container
  down [--images]      remove containers, networks and volumes, and the built images if asked
  down storm|cluster   remove that stack alone

OVERDUE_RABBITMQ is the version all this is about: 4.3, the default, or 4.0. Without it, down
removes both.
TEXT
}

urls=(OVERDUE_BROKER__URL OVERDUE_BROKER__MANAGEMENT_URL OVERDUE_DATABASE__URL)
interval=OVERDUE_BROKER__STATISTICS_INTERVAL

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
  if ((given < 3 && foreign > 0)); then
    die 64 "set all of ${urls[*]}, or none"
  fi
  ((foreign > 0))
}

up() {
  local wanted=("$@") stack
  ensure_engine
  choose_images
  for stack in "${wanted[@]}"; do
    check_ports "$stack"
  done
  start_stacks "${wanted[@]}"
}

worker() {
  [[ -f $root/topology.toml ]] || die 78 "there is no topology.toml to mount into the worker"
  up main
  build_worker
  # Closing orders needs the tables; creating them a second time changes nothing.
  logged "the worker could not prepare the database" \
    compose main --profile worker run --rm --no-deps -T worker database init --reference-tables
  logged "compose could not start the worker" \
    compose main --profile worker up --detach --no-build --no-deps worker
  check_worker
}

down() {
  if ! engine_answers; then
    say "no container engine answers: nothing to remove"
    return
  fi
  local each stack
  for each in ${OVERDUE_RABBITMQ:-"${versions[@]}"}; do
    choose_version "$each"
    for stack in "${stacks[@]}"; do
      remove_stack "$stack"
    done
  done
  if [[ ${1:-} == --images ]]; then
    docker image ls --format '{{.Repository}}:{{.Tag}}' \
      | awk '/^overdue-(standin-[a-z0-9]+|worker):/' | xargs -r docker image rm --force >/dev/null
  fi
  stop_dockerd
}

choose_version "${OVERDUE_RABBITMQ:-4.3}"

# What runs in the background (pulls, builds) does not outlive this script.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

case ${1:-} in
  up)
    case ${2:-main} in
      main | chaos | storm | cluster) set -- up "${2:-main}" ;;
      all) set -- up main chaos ;;
      *) usage >&2 && exit 64 ;;
    esac
    # `make chaos` needs containers that it can kill, whatever services the shell names.
    if [[ $2 != storm && $2 != cluster ]] && uses_own_services; then
      say "using the services that ${urls[0]} and the others name; nothing is started"
    else
      with_lock services "$@"
    fi
    ;;
  worker) with_lock services worker ;;
  env)
    if [[ ${2:-} == storm || ${2:-} == cluster ]]; then
      print_urls "$2"
    elif uses_own_services; then
      for name in "${urls[@]}" "$interval"; do print_exports "$name" "${!name:-}"; done
    else
      print_urls main
      print_tls_urls
      print_urls chaos
    fi
    ;;
  status) for stack in "${stacks[@]}"; do list_stack "$stack"; done ;;
  logs) for stack in "${stacks[@]}"; do containers "$stack" | print_logs 100; done ;;
  down)
    case ${2:-} in
      storm | cluster) with_lock services remove_stack "$2" ;;
      *) with_lock services down "${2:-}" ;;
    esac
    ;;
  help | --help | -h) usage ;;
  *) usage >&2 && exit 64 ;;
esac
