#!/usr/bin/env bash
# usage: start.sh COMMAND...
# The entry point of broker and database in the TLS variant: makes the certificates that are missing,
# then does what the image's own entry point does. The first of the two to start makes them.
set -euo pipefail

folder=/certificates

# Valid for another week. Whoever was interrupted leaves no ca.pem: it is moved there last.
are_good() { openssl x509 -in "$folder/ca.pem" -noout -checkend $((7 * 24 * 3600)) >/dev/null 2>&1; }

# certificate NAME SUBJECT OPTION...: NAME.key and NAME.pem. macOS takes none that is valid for longer than 825 days.
certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 800 \
    -keyout "$1.key" -out "$1.pem" -subj "$2" "${@:3}" 2>/dev/null
}

make_certificates() (
  new=$(mktemp -d)
  cd "$new"
  certificate ca '/CN=overdue development CA' -addext keyUsage=critical,keyCertSign,cRLSign
  signed=(-CA ca.pem -CAkey ca.key -addext 'basicConstraints=critical,CA:FALSE')
  # localhost from outside the containers; by their names the services know each other.
  certificate server /CN=localhost "${signed[@]}" -addext extendedKeyUsage=serverAuth \
    -addext subjectAltName=DNS:localhost,DNS:rabbitmq,DNS:postgres,IP:127.0.0.1
  certificate client /CN=overdue "${signed[@]}" -addext extendedKeyUsage=clientAuth
  # 999 is the group of both services, in the official images and in the stand-ins. PostgreSQL wants
  # the key to be its own or root's.
  chown 0:999 ./*
  chmod 640 ./*.key
  mv client.* server.* "$folder"
  mv ca.pem "$folder"
  # The CA's key goes: nobody signs anything with it any more.
  rm -rf "$new"
)

# The entry point of the image drops these rights; started without them, it finds the certificates made.
if [[ $(id -u) == 0 ]]; then
  exec 9>"$folder/lock"
  flock 9
  are_good || make_certificates
  exec 9>&-
fi

exec "$(command -v docker-entrypoint.sh || command -v entrypoint)" "$@"
