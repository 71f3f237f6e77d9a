#!/usr/bin/env bash
# usage: base.sh SUITE
# Writes a minimal root file system of that Debian suite to standard output, as tar. Needs root.
set -euo pipefail

suite=$1
# Always the same place, so that a run removes what an interrupted one left.
dir=/var/cache/overdue-standin-$suite

remove() {
  umount "$dir/proc" "$dir/sys" 2>/dev/null || true
  rm -rf --one-file-system "$dir"
}
trap remove EXIT
remove

# The mirror this machine uses; empty, on Ubuntu for example, is debootstrap's default.
# shellcheck disable=SC2016 # apt's placeholders
mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' \
  | awk '$1 == "Debian" && $2 ~ /^https?:/ { print $2; exit }')

# The script `sid` is every suite's; an older debootstrap just has no link from the newest names.
debootstrap --variant=minbase --include=ca-certificates "$suite" "$dir" "$mirror" \
  /usr/share/debootstrap/scripts/sid >&2

# The image is a cache and never a system that boots: no fsync, no manuals, no services started,
# and a mirror that lags behind is good enough.
cat > "$dir/etc/dpkg/dpkg.cfg.d/standin" <<'CONF'
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
CONF
echo 'Acquire::Check-Valid-Until "false";' > "$dir/etc/apt/apt.conf.d/99standin"
printf '#!/bin/sh\nexit 101\n' > "$dir/usr/sbin/policy-rc.d"
chmod +x "$dir/usr/sbin/policy-rc.d"
rm -rf "$dir"/var/cache/apt/archives/*.deb "$dir"/var/lib/apt/lists/*

tar -C "$dir" -c .
