# shellcheck shell=bash
# The broker of the stack `delayed`: RabbitMQ 4.0 with the delayed message exchange plugin, which is not
# part of RabbitMQ, nor of this repository. rabbitmq-plugins/README.md says where it comes from.

plugin_url=https://github.com/rabbitmq/rabbitmq-delayed-message-exchange
plugin_tag=v4.0.7
plugin_commit=a9a60750ccb269ba609113440ac65f2f938a7900
plugin_release=rabbitmq_delayed_message_exchange-$plugin_tag.ez
plugin_sha256=9f746962d8f4e9ec2ce52fc86856859c30ed11abc67dd93cd80ebb3ef925d3fd

# Changes with everything that the image is made of but the plugin.
delayed_image() {
  local plugins=$root/rabbitmq-plugins
  echo "overdue-delayed:$({
    cat "$plugins/delayed.Dockerfile" "$plugins/delayed-build.sh"
    echo "${OVERDUE_IMAGE_RABBITMQ:-$(recipe base)$(recipe rabbitmq)}"
  } | cksum | cut -d ' ' -f 1)"
}

# Sets OVERDUE_IMAGE_RABBITMQ, to an image that has the plugin, and OVERDUE_IMAGE_POSTGRES. An image that
# was built before is used at once, except where OVERDUE_DELAYED_PLUGIN names the plugin to use.
choose_delayed_images() {
  local image context=$root/target/delayed
  image=$(delayed_image)
  if [[ -n ${OVERDUE_DELAYED_PLUGIN:-} ]] || ! has_image "$image"; then
    rm -rf "$context"
    mkdir -p "$context/plugin"
    bring_plugin "$context/plugin"
    choose_images
    build_delayed "$image" "$context"
    rm -rf "$context"
  fi
  export OVERDUE_IMAGE_RABBITMQ=$image
  choose_images
}

build_delayed() { # IMAGE CONTEXT
  say "building $1"
  cp "$root/rabbitmq-plugins/delayed-build.sh" "$2"
  # The host's network, as for the stand-ins.
  logged "could not build $1" attended docker build --network host --tag "$1" \
    --build-arg "BASE=$OVERDUE_IMAGE_RABBITMQ" \
    --file "$root/rabbitmq-plugins/delayed.Dockerfile" "$2"
}

# bring_plugin FOLDER: puts its release file there, or its source.
bring_plugin() {
  if [[ -n ${OVERDUE_DELAYED_PLUGIN:-} ]]; then
    copy_plugin "$OVERDUE_DELAYED_PLUGIN" "$1"
  elif ! fetch_release "$1" && ! fetch_source "$1"; then
    die 69 "the delayed message exchange plugin cannot be fetched from $plugin_url.
  LEFT OUT: the stack \`delayed\`, and every test that needs it (tests/it/delayed.rs).
  To have them, bring the plugin yourself, as its release file or as its source:
    OVERDUE_DELAYED_PLUGIN=/path/to/$plugin_release make test-delayed
    OVERDUE_DELAYED_PLUGIN=/path/to/rabbitmq-delayed-message-exchange make test-delayed
  (the file from the page of the release $plugin_tag, or the repository at that tag)"
  fi
}

copy_plugin() { # FROM FOLDER
  if [[ -f $1 && $1 == *.ez ]]; then
    cp "$1" "$2/"
  elif [[ -f $1/Makefile && -f $1/src/rabbit_exchange_type_delayed_message.erl ]]; then
    cp -R "$1/Makefile" "$1/src" "$2/"
  else
    die 64 "OVERDUE_DELAYED_PLUGIN is $1: neither an .ez file nor a folder with the plugin's Makefile and src/"
  fi
}

fetch_release() { # FOLDER
  local file=$1/$plugin_release
  say "fetching $plugin_release"
  if curl --fail --silent --show-error --location --connect-timeout 10 --max-time 120 \
    --output "$file" "$plugin_url/releases/download/$plugin_tag/$plugin_release" </dev/null; then
    sha256sum --check --status <<<"$plugin_sha256  $file" \
      || die 69 "$plugin_release is not the file that was expected: its SHA-256 is $(sha256sum "$file")"
  else
    rm -f "$file"
    return 1
  fi
}

fetch_source() { # FOLDER
  say "cannot fetch it; fetching its source"
  GIT_TERMINAL_PROMPT=0 timeout 120 git -c advice.detachedHead=false clone --quiet --depth 1 \
    --branch "$plugin_tag" "$plugin_url" "$1" </dev/null || return 1
  [[ $(git -C "$1" rev-parse HEAD) == "$plugin_commit" ]] \
    || die 69 "$plugin_tag is not the commit that was expected: it is $(git -C "$1" rev-parse HEAD)"
}

# A broker that could not load the plugin runs without it, and says so only in its log.
require_delayed_type() {
  local answer
  exec 3<>"/dev/tcp/127.0.0.1/$(port delayed MANAGEMENT)"
  printf 'GET /api/overview HTTP/1.0\r\nAuthorization: Basic %s\r\n\r\n' "$(printf admin:admin | base64)" >&3
  answer=$(timeout 20 cat <&3 || true)
  exec 3>&-
  [[ $answer == *'"x-delayed-message"'* ]] && return
  docker logs "$(containers delayed rabbitmq)" 2>&1 | grep -i -A 1 'delayed_message' | head -n 20 >&2 || true
  # So that the next start does not find it, and asks for the plugin again.
  remove_stack delayed
  docker image rm "$OVERDUE_IMAGE_RABBITMQ" >/dev/null
  die 69 "the broker did not load the plugin: is it for another version of RabbitMQ?"
}
