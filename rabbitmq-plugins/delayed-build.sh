#!/usr/bin/env bash
# usage: delayed-build.sh PLUGIN BUILT
# Runs as root in the broker's image. Puts into the folder BUILT what the broker's folder of plugins
# lacks: the release file that is in the folder PLUGIN, or else what its source compiles to.
set -euo pipefail

plugin=$1 built=$2
name=rabbitmq_delayed_message_exchange
sbin=$(dirname "$(readlink -f "$(command -v rabbitmq-server)")")
plugins=$(cd "$sbin/../plugins" && pwd)
work=$(mktemp -d)

# The folder that has rabbit_common/include and rabbit/include. The official image has the broker's
# headers beside its plugins, the distribution's package has them in its source.
find_headers() {
  local app version archive
  mkdir "$work/headers"
  for app in rabbit_common rabbit; do
    [[ ! -d $(echo "$plugins/$app"-*/include) ]] || ln -s "$plugins/$app"-* "$work/headers/$app"
  done
  if [[ -e $work/headers/rabbit_common ]]; then return; fi
  version=$(dpkg-query --show --showformat '${Version}' rabbitmq-server)
  sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
  apt-get update
  apt-get install --yes --no-install-recommends xz-utils
  (cd "$work" && apt-get source --download-only "rabbitmq-server=$version")
  archive=$(echo "$work"/*.orig.tar.*)
  tar -x -f "$archive" -C "$work/headers" --strip-components=2 --wildcards \
    '*/deps/rabbit_common/include' '*/deps/rabbit/include'
}

# The source knows which broker it needs, and its own version only in its repository's tags.
required_broker() {
  sed -n 's/.*{broker_version_requirements, *\["\([0-9.]*\)"\]}.*/\1/p' "$plugin/Makefile"
}

compile() {
  local version app source modules=()
  version=$(required_broker)
  [[ -n $version ]] || { echo "no broker_version_requirements in the plugin's Makefile" >&2; exit 1; }
  find_headers
  app=$built/$name-$version/ebin
  mkdir -p "$app"
  ERL_LIBS=$plugins erlc -I "$work/headers" -o "$app" "$plugin"/src/*.erl
  for source in "$plugin"/src/*.erl; do modules+=("$(basename "$source" .erl)"); done
  cat >"$app/$name.app" <<TEXT
{application, $name,
 [{description, "RabbitMQ Delayed Message Exchange"},
  {vsn, "$version"},
  {modules, [$(IFS=,; echo "${modules[*]}")]},
  {registered, []},
  {applications, [kernel, stdlib, rabbit_common, rabbit]},
  {mod, {rabbit_delayed_message_app, []}},
  {env, []},
  {broker_version_requirements, ["$version"]}]}.
TEXT
}

mkdir -p "$built"
if [[ -d $plugin/src ]]; then
  compile
else
  cp "$plugin"/*.ez "$built/"
fi
# For the user that the broker runs as.
chmod -R a+rX "$built"
