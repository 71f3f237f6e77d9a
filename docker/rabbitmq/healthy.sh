#!/usr/bin/env bash
# Healthy: the management API answers and the broker accepts AMQP connections (it opens that
# listener last). Plain bash, because `rabbitmq-diagnostics` starts an Erlang machine at every call,
# and without a login, because each would be a line in the broker's log.
set -euo pipefail

exec 3<>/dev/tcp/127.0.0.1/5672
exec 4<>/dev/tcp/127.0.0.1/15672
printf 'GET / HTTP/1.0\r\n\r\n' >&4
read -r -t 4 status <&4
[[ $status == *' 200 '* ]]
