# shellcheck shell=bash
# What every script needs: the folder, messages, one run at a time. Messages go to standard error, since
# what `services.sh env` prints is evaluated.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
speaker=$(basename "$0" .sh)
cd "$root"

# Cargo is not one of make's jobs, and would warn about a job server that it cannot reach.
unset MAKEFLAGS MFLAGS

say() { printf '%s: %s\n' "$speaker" "$*" >&2; }

# die CODE MESSAGE...: 69 means that a service is unavailable, as in overdue itself.
die() {
  local code=$1
  shift
  say "$@"
  exit "$code"
}

# logged MESSAGE COMMAND...: shows the command's output only if it fails, then ends with MESSAGE.
logged() {
  local message=$1 log
  shift
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || {
    tail -n 30 "$log" >&2
    rm -f "$log"
    die 69 "$message"
  }
  rm -f "$log"
}

# with_lock NAME COMMAND...: two runs of the same kind share the services, so the second waits for the
# first. Nothing that the command starts in the background keeps the lock.
with_lock() {
  local name=$1
  shift
  if command -v flock >/dev/null; then
    exec 9>"/tmp/overdue-$name-$(id -u).lock"
    if ! flock --nonblock 9; then
      say "waiting for another run to end"
      flock --timeout 1800 9 || die 75 "another run has not ended within 30 minutes"
    fi
  fi
  "$@" 9>&-
}

is_root_on_debian() {
  [[ $(id -u) == 0 && -e /etc/debian_version ]] && command -v apt-get >/dev/null
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 --yes "$@"; }

# apt_install PACKAGE...: of alternatives, written a|b, the first that the distribution has.
apt_install() {
  local wanted package packages=()
  # A foreign source that does not answer is no reason to stop.
  apt update >/dev/null 2>&1 </dev/null || true
  for wanted; do
    for package in ${wanted//|/ }; do
      [[ -n $(apt-cache search --names-only "^${package//./\\.}\$") ]] || continue
      packages+=("$package")
      break
    done
  done
  say "installing from the distribution's packages: ${packages[*]}"
  # What an interrupted run left half installed.
  dpkg --configure -a >/dev/null 2>&1 </dev/null || true
  logged "could not install ${packages[*]}" apt install --no-install-recommends "${packages[@]}"
}
