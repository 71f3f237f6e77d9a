# shellcheck shell=bash
# Messages go to standard error: what `services.sh env` prints is evaluated. Each starts with the name
# of the script.

speaker=$(basename "$0" .sh)

say() { printf '%s: %s\n' "$speaker" "$*" >&2; }

# die CODE MESSAGE...: 69 means that a service is unavailable, as in overdue itself.
die() {
  local code=$1
  shift
  say "$@"
  exit "$code"
}
