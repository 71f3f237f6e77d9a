#!/usr/bin/env bash
# As in the official image: own the volume, leave root, become the server.
set -euo pipefail

if [[ $(id -u) == 0 ]]; then
  find /var/lib/rabbitmq ! -user rabbitmq -exec chown rabbitmq:rabbitmq {} +
  exec setpriv --reuid=rabbitmq --regid=rabbitmq --clear-groups "$0" "$@"
fi
exec "$@"
