# shellcheck shell=bash
# The broker of the stack `delayed`: RabbitMQ 4.0 and the release file of the delayed message exchange
# plugin, which is not part of this repository. rabbitmq-plugins/README.md says where it comes from.

# Sets OVERDUE_IMAGE_RABBITMQ, to an image that has the plugin, and OVERDUE_IMAGE_POSTGRES.
choose_delayed_images() {
  local plugin=${OVERDUE_DELAYED_PLUGIN:-} context
  [[ -f $plugin && $plugin == *.ez ]] \
    || die 69 "OVERDUE_DELAYED_PLUGIN names no .ez file. LEFT OUT: what needs the delayed message" \
      "exchange plugin (tests/it/delayed.rs). rabbitmq-plugins/README.md says which file it takes"
  choose_images
  context=$(mktemp -d)
  cp "$plugin" "$context/"
  say "building overdue-delayed"
  logged "could not build overdue-delayed" attended docker build --tag overdue-delayed \
    --build-arg "BASE=$OVERDUE_IMAGE_RABBITMQ" \
    --file "$root/rabbitmq-plugins/delayed.Dockerfile" "$context"
  rm -rf "$context"
  export OVERDUE_IMAGE_RABBITMQ=overdue-delayed
}

# A broker that could not load the plugin runs without it, and says so only in its log.
require_delayed_type() {
  local types
  types=$(docker exec "$(containers delayed rabbitmq)" rabbitmqctl --quiet eval \
    '[T || {T, _} <- rabbit_registry:lookup_all(exchange)].')
  [[ $types != *x-delayed-message* ]] || return 0
  remove_stack delayed
  die 69 "the broker did not load the plugin: is $OVERDUE_DELAYED_PLUGIN for another version of RabbitMQ?"
}
