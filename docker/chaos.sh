#!/usr/bin/env bash
# The storm's tests of itself, then minutes of faults, on containers that nothing else uses and that are removed in the end.
# MINUTES is how long strikes go on, SEED which they are, RATE how many orders a second come, CLUSTER=3 takes a cluster of three brokers;
# RECONNECTS is how often workers lose their connections instead, and nothing else happens.
# shellcheck source=docker/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

case ${CLUSTER:-1} in
  1) stack=storm ;;
  3) stack=cluster ;;
  *) die 64 "CLUSTER is $CLUSTER; it can be 3, or left out" ;;
esac

# A debug build does not keep up with many orders a second.
build=(--release)
[[ -n ${RECONNECTS:-} ]] || ((${RATE:-40} >= 200)) || build=()

storm() {
  cargo test "${build[@]}" --test chaos --no-run
  docker/services.sh up "$stack" </dev/null
  trap 'docker/services.sh down "$stack"' EXIT
  eval "$(docker/services.sh env "$stack")"
  export OVERDUE_STORM_MINUTES=${MINUTES:-5} OVERDUE_STORM_SEED=${SEED:-} OVERDUE_STORM_RATE=${RATE:-}
  export OVERDUE_STORM_STRIKES=${RECONNECTS:-}
  local chosen=(storm:: --skip a_thousand_reconnects)
  [[ -z ${RECONNECTS:-} ]] || chosen=(a_thousand_reconnects)
  cargo test "${build[@]}" --quiet --test chaos -- --ignored "${chosen[@]}" --nocapture || exit 1
}

with_lock storm storm
