# shellcheck shell=bash
# A stack is one compose project: main; chaos for the fault tests and storm for `make chaos`, which stop
# and start its containers and must not disturb the others; cluster, three brokers and a database; delayed,
# a 4.0 whose broker has the delayed message exchange plugin. Each version of RabbitMQ has its own, so that
# they run side by side, and no 4.0 is given the data of a 4.3.

versions=(4.3 4.0)

# Below 32768, from where on Linux gives ports to outgoing connections. The last two follow the others.
declare -A ports=([AMQP]=${OVERDUE_PORT_AMQP:-28672} [MANAGEMENT]=${OVERDUE_PORT_MANAGEMENT:-28673}
  [PROMETHEUS]=${OVERDUE_PORT_PROMETHEUS:-28674} [POSTGRES]=${OVERDUE_PORT_POSTGRES:-28432})
ports+=([AMQPS]=${OVERDUE_PORT_AMQPS:-$((ports[AMQP] - 1))}
  [HTTPS]=${OVERDUE_PORT_HTTPS:-$((ports[MANAGEMENT] + 2))})
declare -A above=([main]=0 [storm]=500 [cluster]=600 [delayed]=700 [chaos]=1000)

# choose_version VERSION: whose stacks the other functions mean.
choose_version() {
  version=$1 project=${OVERDUE_PROJECT:-overdue} version_above=0
  case $version in
    4.3) ;;
    4.0) version_above=2000 project+=-rabbitmq40 ;;
    *) die 64 "OVERDUE_RABBITMQ is $version; it can be 4.3 or 4.0" ;;
  esac
}

project_of() { if [[ $1 == main ]]; then echo "$project"; else echo "$project-$1"; fi; }

port() { echo $((ports[$2] + above[$1] + version_above)); } # STACK NAME

# node_port NAME NODE: of the cluster; its first node has the stack's port.
node_port() { echo $(($(port cluster "$1") + 3 * ($2 - 1))); }

# The services of a stack that are started and waited for.
services_of() { if [[ $1 == cluster ]]; then echo node1 node2 node3 postgres; else echo rabbitmq postgres; fi; }

# containers STACK [SERVICE]: ids, running or not. By label, because the two composes name them
# differently.
containers() {
  docker ps --all --quiet --filter "label=com.docker.compose.project=$(project_of "$1")" \
    ${2:+--filter "label=com.docker.compose.service=$2"}
}

container_name() {
  containers "$1" "$2" 2>/dev/null | xargs -r docker inspect --format '{{slice .Name 1}}'
}

compose() {
  local stack=$1 name node files=(--file docker-compose.yml) environment=()
  shift
  case $stack in
    main) files+=(--file docker/tls/docker-compose.yml) ;;
    cluster) files=(--file docker/cluster/docker-compose.yml) ;;
    delayed) files+=(--file rabbitmq-plugins/docker-compose.delayed.yml) ;;
  esac
  for name in "${!ports[@]}"; do environment+=("OVERDUE_PORT_$name=$(port "$stack" "$name")"); done
  for node in 2 3; do
    environment+=("OVERDUE_PORT_AMQP_$node=$(node_port AMQP "$node")"
      "OVERDUE_PORT_MANAGEMENT_$node=$(node_port MANAGEMENT "$node")")
  done
  # A checksum of what is mounted is part of the containers' definition: an edited file recreates them.
  name=$(cat docker/{rabbitmq,tls,cluster}/* rabbitmq-plugins/enabled_plugins* | cksum | cut -d ' ' -f 1)
  env "${environment[@]}" "OVERDUE_CONFIGURATION=$name" "${compose_command[@]}" \
    --project-name "$(project_of "$stack")" "${files[@]}" "$@"
}

start_stacks() {
  local stack
  for stack; do
    containers "$stack" | xargs -r docker inspect --format '{{if .State.Paused}}{{.Id}}{{end}}' \
      | xargs -r docker unpause >/dev/null
    # shellcheck disable=SC2046 # several words
    logged "compose could not start $stack; OVERDUE_PORT_AMQP and others move a port that is taken (docs/services.md)" \
      compose "$stack" up --detach $(services_of "$stack")
  done
  for stack; do
    # shellcheck disable=SC2046 # several words
    wait_healthy "$stack" $(services_of "$stack")
    [[ $stack != main ]] || copy_certificates
    say "$stack is healthy: AMQP on port $(port "$stack" AMQP)," \
      "PostgreSQL on port $(port "$stack" POSTGRES)"
  done
}

wait_healthy() { # STACK SERVICE...
  local stack=$1 service id deadline=$((SECONDS + 300))
  shift
  for service; do
    id=$(containers "$stack" "$service")
    until is_healthy "$id"; do
      if [[ $(docker inspect --format '{{.State.Status}} {{.RestartCount}}' "$id") != 'running 0' ]] \
        || ((SECONDS > deadline)); then
        # A worker would be started again and again.
        [[ $service != worker ]] || docker stop "$id" >/dev/null
        docker logs --tail 30 "$id" >&2
        die 69 "$(container_name "$stack" "$service") does not become healthy: its log is above"
      fi
      sleep 0.2
    done
  done
}

# Runs the container's own health check now: the engine does it seldom, because each one costs as much as many tests.
is_healthy() {
  local check
  mapfile -t check < <(docker inspect --format '{{range slice .Config.Healthcheck.Test 1}}{{println .}}{{end}}' "$1")
  docker exec "$1" "${check[@]:0:${#check[@]}-1}" >/dev/null 2>&1
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

remove_stack() {
  local label
  label=label=com.docker.compose.project=$(project_of "$1")
  containers "$1" | xargs -r docker rm --force --volumes >/dev/null
  docker network ls --quiet --filter "$label" | xargs -r docker network rm >/dev/null
  docker volume ls --quiet --filter "$label" | xargs -r docker volume rm >/dev/null
}

# print_exports NAME VALUE...: a value that is not known is left out.
print_exports() {
  while (($# > 0)); do
    [[ -z $2 ]] || printf "export %s='%s'\n" "$1" "$2"
    shift 2
  done
}

print_urls() {
  local amqp management database name=CHAOS
  amqp=amqp://admin:admin@127.0.0.1:$(port "$1" AMQP)/%2f
  management=http://admin:admin@127.0.0.1:$(port "$1" MANAGEMENT)
  database=postgres://overdue:overdue@127.0.0.1:$(port "$1" POSTGRES)/overdue
  if [[ $1 == main ]]; then
    # Not encrypted although it could be: demo and benchmarks are about other things. The last two are what
    # docker/rabbitmq sets.
    print_exports OVERDUE_BROKER__URL "$amqp" OVERDUE_BROKER__MANAGEMENT_URL "$management" \
      OVERDUE_DATABASE__URL "$database?sslmode=disable" \
      OVERDUE_BROKER__STATISTICS_INTERVAL 1s OVERDUE_BROKER__DEAD_LETTER_SLOTS 1000
    return
  fi
  [[ $1 != delayed ]] || name=DELAYED
  print_exports "OVERDUE_${name}_BROKER_URL" "$amqp" \
    "OVERDUE_${name}_MANAGEMENT_URL" "$management" "OVERDUE_${name}_DATABASE_URL" "$database" \
    "OVERDUE_${name}_BROKER_CONTAINER" "$(container_name "$1" rabbitmq)" \
    "OVERDUE_${name}_DATABASE_CONTAINER" "$(container_name "$1" postgres)"
  [[ $1 != cluster ]] || print_nodes
}

# Each node's AMQP URI and management API, and their containers in the same order.
print_nodes() {
  local node nodes=() names=()
  for node in 1 2 3; do
    nodes+=("amqp://admin:admin@127.0.0.1:$(node_port AMQP "$node")/%2f http://admin:admin@127.0.0.1:$(node_port MANAGEMENT "$node")")
    names+=("$(container_name cluster "node$node")")
  done
  local IFS=,
  print_exports OVERDUE_CHAOS_NODES "${nodes[*]}" OVERDUE_CHAOS_BROKER_CONTAINERS "${names[*]}"
}

# Copies what main's containers have made for themselves, of the CA and of a client, to target/tls/PROJECT.
copy_certificates() {
  local folder=$root/target/tls/$project file
  mkdir -p "$folder"
  for file in ca.pem client.pem client.key; do
    docker cp "$(containers main postgres):/certificates/$file" "$folder/$file.$$" >/dev/null || return 1
    # Renamed into its place: somebody may be reading it.
    mv "$folder/$file.$$" "$folder/$file"
  done
}

# main over TLS, and the files that it takes. Nothing where it does not run.
print_tls_urls() {
  local folder=$root/target/tls/$project files
  copy_certificates 2>/dev/null || return 0
  files="cacertfile=$folder/ca.pem&certfile=$folder/client.pem&keyfile=$folder/client.key"
  print_exports OVERDUE_TLS_BROKER_URL "amqps://admin:admin@localhost:$(port main AMQPS)/%2f?$files" \
    OVERDUE_TLS_MANAGEMENT_URL \
    "https://admin:admin@localhost:$(port main HTTPS)?cacertfile=$folder/ca.pem" \
    OVERDUE_TLS_DATABASE_URL \
    "postgres://overdue:overdue@localhost:$(port main POSTGRES)/overdue?sslmode=verify-full&sslrootcert=$folder/ca.pem"
}
