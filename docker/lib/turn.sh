# shellcheck shell=bash
# Two runs of the same kind on one machine take turns: they share the broker and the database.

# take_turn NAME FUNCTION: nothing that the function starts keeps the lock.
take_turn() {
  if command -v flock >/dev/null; then
    exec 9>"/tmp/overdue-$1-$(id -u).lock"
    if ! flock --nonblock 9; then
      echo "$1: waiting for another run to end" >&2
      if ! flock --timeout 1800 9; then
        echo "$1: another run does not end" >&2
        exit 75
      fi
    fi
  fi
  "$2" 9>&-
}

# Not part of `make`'s own scheduling, and cargo would warn about a scheduler it cannot reach.
unset MAKEFLAGS MFLAGS
