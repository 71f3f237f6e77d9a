#!/bin/sh
# The worker is neither started nor restarted: docs/operations.md says what comes before that.
[ ! -d /run/systemd/system ] || systemctl daemon-reload
