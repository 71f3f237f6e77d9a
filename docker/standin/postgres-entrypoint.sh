#!/usr/bin/env bash
# As in the official image: own the volume, leave root, create the database once, become the server.
set -euo pipefail

if [[ $(id -u) == 0 ]]; then
  install -d -o postgres -g postgres /var/lib/postgresql /var/run/postgresql
  find /var/lib/postgresql ! -user postgres -exec chown postgres:postgres {} +
  exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi

major=$(postgres --version | grep -oE '[0-9]+' | head -n 1)
export PGDATA=/var/lib/postgresql/$major/docker
user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}

if [[ ! -s $PGDATA/PG_VERSION ]]; then
  # Built beside its place and renamed: one that was interrupted is not taken for a database.
  new=$PGDATA.new
  rm -rf "$new"
  mkdir -p "$new"
  initdb --pgdata="$new" --username="$user" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") \
    --encoding=UTF8 --auth-local=trust --auth-host=scram-sha-256
  printf '\nhost all all all scram-sha-256\n' >> "$new/pg_hba.conf"
  printf "\nlisten_addresses = '*'\n" >> "$new/postgresql.conf"
  if [[ $database != postgres ]]; then
    printf 'CREATE DATABASE "%s";\n' "$database" | postgres --single -j -D "$new" postgres
  fi
  mv "$new" "$PGDATA"
fi
exec "$@"
