#!/usr/bin/env bash
# usage: start.sh COMMAND...
# The entry point of broker and database in the TLS variant: makes the certificates that are missing,
# then does what the image's own entry point does. The first of the two to start makes them.
set -euo pipefail

folder=/certificates
# Days; macOS takes no server's certificate that is valid for longer than 825.
days=800

# Valid for another week. Whoever was interrupted leaves no ca.pem: it is moved there last.
are_good() { openssl x509 -in "$folder/ca.pem" -noout -checkend $((7 * 24 * 3600)) >/dev/null 2>&1; }

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

# signed NAME SUBJECT EXTENSIONS: NAME.key and NAME.pem
signed() {
  key "$1.key"
  openssl req -new -key "$1.key" -subj "$2" \
    | openssl x509 -req -CA ca.pem -CAkey ca.key -days "$days" -extfile <(printf '%s\n' "$3") \
      -out "$1.pem" 2>/dev/null
}

make_certificates() (
  new=$(mktemp -d)
  cd "$new"
  key ca.key
  openssl req -x509 -new -key ca.key -days "$days" -subj '/CN=overdue development CA' \
    -addext 'keyUsage=critical,keyCertSign,cRLSign' -out ca.pem
  # localhost from outside the containers; by their names the services know each other.
  signed server /CN=localhost $'extendedKeyUsage=serverAuth
subjectAltName=DNS:localhost,DNS:rabbitmq,DNS:postgres,IP:127.0.0.1'
  signed client /CN=overdue 'extendedKeyUsage=clientAuth'
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
