# shellcheck shell=bash
# The official images where they can be had; else stand-ins, built from the distribution's packages.
# A stand-in that is there is used at once: only the first start asks the registry.

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# A tag that changes with what the image is made from.
recipe() {
  cat "$root/docker/standin/base.sh" "$root/docker/standin/$1"* | cksum | cut -d ' ' -f 1
}

# attended COMMAND...: in a background job, a command that ends with the job.
attended() {
  local pid
  "$@" &
  pid=$!
  # shellcheck disable=SC2064 # this pid
  trap "kill $pid 2>/dev/null || true" TERM
  wait "$pid"
}

# pull IMAGE: gives up where the registry has not answered after 20 seconds.
pull() {
  local log pid start=$SECONDS result=0
  log=$(mktemp)
  say "pulling $1"
  attended docker pull "$1" >"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    if ((SECONDS - start > 900)) || { [[ ! -s $log ]] && ((SECONDS - start > 20)); }; then
      kill "$pid" 2>/dev/null || true
    fi
    sleep 0.1
  done
  wait "$pid" || result=1
  ((result == 0)) || say "cannot pull $1: $(tail -n 1 "$log")"
  rm -f "$log"
  return "$result"
}

ensure_base() { # SUITE TAG
  has_image "$2" && return
  is_root_on_debian || die 69 "the official images cannot be pulled, and stand-ins can only be" \
    "built as root on Debian or Ubuntu. $ways_forward"
  if ! command -v debootstrap >/dev/null \
    || [[ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; then
    apt_install debootstrap debian-archive-keyring
  fi
  say "building $2 from the distribution's packages"
  logged "could not build $2" import_base "$1" "$2"
}

import_base() { "$root/docker/standin/base.sh" "$1" | docker import - "$2"; }

build_standin() { # KIND IMAGE BASE
  say "building $2"
  # The host's network: its mirror may be reachable only from there.
  logged "could not build $2" attended docker build --network host --build-arg "BASE=$3" \
    --tag "$2" --file "$root/docker/standin/$1.Dockerfile" "$root/docker/standin"
}

# Sets official, standin, suite, base and variable for rabbitmq or postgres.
describe_image() {
  suite=forky
  case $1:$version in
    rabbitmq:4.3) official=rabbitmq:4.3-management standin=overdue-standin-rabbitmq ;;
    rabbitmq:4.0)
      official=rabbitmq:4.0-management standin=overdue-standin-rabbitmq40 suite=trixie
      ;;
    postgres:*) official=postgres:18 standin=overdue-standin-postgres ;;
  esac
  case $1 in
    rabbitmq) variable=OVERDUE_IMAGE_RABBITMQ ;;
    postgres) variable=OVERDUE_IMAGE_POSTGRES ;;
  esac
  standin+=:$(recipe "$1")
  base=overdue-standin-base:$suite-$(recipe base)
}

# Sets OVERDUE_IMAGE_RABBITMQ and OVERDUE_IMAGE_POSTGRES, unless they are set. What takes long
# happens for both at once.
choose_images() {
  local official standin suite base variable kind
  local pulling=() pulls=() builds=() index
  for kind in rabbitmq postgres; do
    describe_image "$kind"
    if [[ -n ${!variable:-} ]]; then
      continue
    elif has_image "$official"; then
      export "$variable=$official"
    elif has_image "$standin"; then
      export "$variable=$standin"
    else
      pull "$official" &
      pulling+=("$kind") pulls+=("$!")
    fi
  done
  ((${#pulling[@]} > 0)) || return 0

  for index in "${!pulling[@]}"; do
    describe_image "${pulling[index]}"
    if wait "${pulls[index]}"; then
      export "$variable=$official"
    else
      ensure_base "$suite" "$base"
      export "$variable=$standin"
      build_standin "${pulling[index]}" "$standin" "$base" &
      builds+=("$!")
    fi
  done
  for index in "${!builds[@]}"; do
    wait "${builds[index]}" || exit 69
  done
}

# Where the official broker could be had, so can what the worker's image is built from. Elsewhere
# the binary comes from this machine.
build_worker() {
  local official standin suite base variable
  [[ -z ${OVERDUE_IMAGE_WORKER:-} ]] || return 0
  export OVERDUE_IMAGE_WORKER=overdue-worker
  if [[ $OVERDUE_IMAGE_RABBITMQ == rabbitmq:* ]]; then
    say "building $OVERDUE_IMAGE_WORKER"
    compose main --profile worker build worker >&2
  else
    describe_image postgres
    ensure_base "$suite" "$base"
    (cd "$root" && cargo build --release --target-dir target)
    say "building $OVERDUE_IMAGE_WORKER from target/release/overdue"
    logged "could not build $OVERDUE_IMAGE_WORKER" build_worker_standin "$base"
  fi
}

build_worker_standin() { # BASE
  tar -c -C "$root/target/release" overdue -C "$root/docker" worker-standin.Dockerfile \
    | docker build --build-arg "BASE=$1" --tag "$OVERDUE_IMAGE_WORKER" \
      --file worker-standin.Dockerfile -
}
