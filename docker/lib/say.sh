# shellcheck shell=bash
# Messages go to standard error: what `services.sh env` prints is evaluated.

say() { printf 'services: %s\n' "$*" >&2; }

# die CODE MESSAGE...: 69 means that a service is unavailable, as in overdue itself.
die() {
  local code=$1
  shift
  say "$@"
  exit "$code"
}
