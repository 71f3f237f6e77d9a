# shellcheck shell=bash
# Two runs of the same kind share the broker and the database, so the second waits for the first.

lock_timeout=1800

# with_lock NAME COMMAND...: nothing that the command starts in the background keeps the lock.
with_lock() {
  local name=$1
  shift
  if command -v flock >/dev/null; then
    exec 9>"/tmp/overdue-$name-$(id -u).lock"
    if ! flock --nonblock 9; then
      say "waiting for another run to end"
      flock --timeout "$lock_timeout" 9 \
        || die 75 "another run has not ended within $((lock_timeout / 60)) minutes"
    fi
  fi
  "$@" 9>&-
}
