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
# shellcheck source=docker/lib/delayed.sh
source "$root/docker/lib/delayed.sh"

usage() {
  cat <<'TEXT'
usage: docker/services.sh COMMAND
  up [STACK|all]       start broker and database, wait until they are healthy; STACK is main (the
                       default), chaos (a second pair, which the fault tests stop and start), storm
                       (a third, for `make chaos`), cluster (three brokers and a database, for
                       `make chaos CLUSTER=3`) or delayed (a pair whose broker, a 4.0, has the
                       delayed message exchange plugin); all is main and chaos
  worker               build the worker's image, start main and the worker
  env [STACK]          print the URLs as shell exports: eval "$(docker/services.sh env)"; those of
                       storm and cluster under the names that chaos has otherwise, those of
                       delayed as OVERDUE_DELAYED_BROKER_URL and so on; main over TLS as
                       OVERDUE_TLS_BROKER_URL and so on, with its certificates in target/tls
  status               list the containers
  logs                 the last lines of every container
  down [--images]      remove containers, networks and volumes, and the built images if asked
  down storm|cluster|delayed
                       remove that stack alone

OVERDUE_RABBITMQ is the version all this is about: 4.3, the default, or 4.0. Without it, status, logs
and down are about both. OVERDUE_DELAYED_PLUGIN is the release file of the plugin for delayed
(rabbitmq-plugins/README.md).
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
  if [[ $1 == delayed ]]; then choose_delayed_images; else choose_images; fi
  for stack in "${wanted[@]}"; do
    check_ports "$stack"
  done
  start_stacks "${wanted[@]}"
  [[ $1 != delayed ]] || require_delayed_type
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
  for_each_stack remove_stack
  if [[ ${1:-} == --images ]]; then
    docker image ls --format '{{.Repository}}:{{.Tag}}' \
      | awk '/^overdue-(standin-[a-z0-9]+|worker|delayed):/' | xargs -r docker image rm --force >/dev/null
  fi
  stop_dockerd
}

choose_version "${OVERDUE_RABBITMQ:-4.3}"
[[ ${2:-} != delayed ]] || choose_version "$delayed_version"

# What runs in the background (pulls, builds) does not outlive this script.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

case ${1:-} in
  up)
    case ${2:-main} in
      main | chaos | storm | cluster | delayed) set -- up "${2:-main}" ;;
      all) set -- up main chaos ;;
      *) usage >&2 && exit 64 ;;
    esac
    # `make chaos` needs containers that it can kill, and `make test-delayed` a plugin, whatever
    # services the shell names.
    if [[ ! $2 =~ ^(storm|cluster|delayed)$ ]] && uses_own_services; then
      say "using the services that ${urls[0]} and the others name; nothing is started"
    else
      with_lock services "$@"
    fi
    ;;
  worker) with_lock services worker ;;
  env)
    if [[ ${2:-} =~ ^(storm|cluster|delayed)$ ]]; then
      print_urls "$2"
    elif uses_own_services; then
      for name in "${urls[@]}" "$interval"; do print_exports "$name" "${!name:-}"; done
    else
      print_urls main
      print_tls_urls
      print_urls chaos
    fi
    ;;
  status) for_each_stack list_stack ;;
  logs) for_each_stack log_stack ;;
  down)
    case ${2:-} in
      storm | cluster | delayed) with_lock services remove_stack "$2" ;;
      *) with_lock services down "${2:-}" ;;
    esac
    ;;
  help | --help | -h) usage ;;
  *) usage >&2 && exit 64 ;;
esac
