# shellcheck shell=bash
# A stack is one compose project of docker-compose.yml: main; chaos for the fault tests and storm for
# `make chaos`, which stop and start its containers and must not disturb the others. cluster is three
# brokers and a database, of docker/cluster/docker-compose.yml. Each version of RabbitMQ has its own,
# so that they run side by side, and no 4.0 is given the data of a 4.3. delayed is a 4.0 only: a broker
# that has the delayed message exchange plugin.

versions=(4.3 4.0)
delayed_version=4.0

# main is the TLS variant, and listens on two ports more.
port_names_of() { echo AMQP MANAGEMENT PROMETHEUS POSTGRES; [[ $1 != main ]] || echo AMQPS HTTPS; }

# choose_version VERSION: whose stacks the other functions mean. Sets version, stacks, project and offset.
choose_version() {
  version=$1 project=${OVERDUE_PROJECT:-overdue} stacks=(main chaos storm cluster)
  case $version in
    4.3) offset=0 ;;
    4.0) offset=2000 project+=-rabbitmq40 ;;
    *) die 64 "OVERDUE_RABBITMQ is $version; it can be 4.3 or 4.0" ;;
  esac
  [[ $version != "$delayed_version" ]] || stacks+=(delayed)
}

# for_each_stack COMMAND...: with each stack as its last argument, of the version that OVERDUE_RABBITMQ
# names, or of all.
for_each_stack() {
  local each stack
  for each in ${OVERDUE_RABBITMQ:-"${versions[@]}"}; do
    choose_version "$each"
    for stack in "${stacks[@]}"; do
      "$@" "$stack"
    done
  done
}

project_of() { if [[ $1 == main ]]; then echo "$project"; else echo "$project-$1"; fi; }

# port STACK NAME: below 32768, from where on Linux gives ports to outgoing connections. Chaos
# listens 1000 above main, storm 500, cluster 600 (each further node 3 above the one before), delayed 700, and the
# stacks of RabbitMQ 4.0 2000 above those of 4.3.
port() {
  local number
  case $2 in
    AMQP) number=${OVERDUE_PORT_AMQP:-28672} ;;
    MANAGEMENT) number=${OVERDUE_PORT_MANAGEMENT:-28673} ;;
    PROMETHEUS) number=${OVERDUE_PORT_PROMETHEUS:-28674} ;;
    POSTGRES) number=${OVERDUE_PORT_POSTGRES:-28432} ;;
    # Where the others were moved to, these follow.
    AMQPS) number=${OVERDUE_PORT_AMQPS:-$((${OVERDUE_PORT_AMQP:-28672} - 1))} ;;
    HTTPS) number=${OVERDUE_PORT_HTTPS:-$((${OVERDUE_PORT_MANAGEMENT:-28673} + 2))} ;;
  esac
  case $1 in
    chaos) number=$((number + 1000)) ;;
    storm) number=$((number + 500)) ;;
    cluster) number=$((number + 600)) ;;
    delayed) number=$((number + 700)) ;;
  esac
  echo $((number + offset))
}

# The services of a stack that are started and waited for.
services_of() { if [[ $1 == cluster ]]; then echo node1 node2 node3 postgres; else echo rabbitmq postgres; fi; }

# containers STACK [SERVICE]: ids, running or not. By label, because the two composes name them
# differently.
containers() {
  docker ps --all --quiet --filter "label=com.docker.compose.project=$(project_of "$1")" \
    ${2:+--filter "label=com.docker.compose.service=$2"}
}

# node_port NAME NODE: of the cluster; its first node has the stack's port.
node_port() { echo $(($(port cluster "$1") + 3 * ($2 - 1))); }

container_name() {
  containers "$1" "$2" 2>/dev/null | xargs -r docker inspect --format '{{slice .Name 1}}'
}

# compose_files STACK: what defines it, a file a line; the first one says where relative paths begin.
compose_files() {
  case $1 in
    cluster) echo "$root/docker/cluster/docker-compose.yml" ;;
    *) echo "$root/docker-compose.yml" ;;
  esac
  [[ $1 != main ]] || echo "$root/docker/tls/docker-compose.yml"
  [[ $1 != delayed ]] || echo "$root/rabbitmq-plugins/docker-compose.delayed.yml"
}

# A checksum of what is mounted into a stack's containers.
configuration() {
  local mounted=("$root"/docker/rabbitmq/* "$root/rabbitmq-plugins/enabled_plugins")
  [[ $1 != main ]] || mounted+=("$root"/docker/tls/*)
  [[ $1 != delayed ]] || mounted+=("$root/rabbitmq-plugins/enabled_plugins.delayed")
  cat "${mounted[@]}" | cksum | cut -d ' ' -f 1
}

compose() {
  local stack=$1 name node file files=() environment=()
  shift
  while read -r file; do files+=(--file "$file"); done < <(compose_files "$stack")
  for name in $(port_names_of "$stack"); do
    environment+=("OVERDUE_PORT_$name=$(port "$stack" "$name")")
  done
  for node in 2 3; do
    environment+=("OVERDUE_PORT_AMQP_$node=$(node_port AMQP "$node")"
      "OVERDUE_PORT_MANAGEMENT_$node=$(node_port MANAGEMENT "$node")")
  done
  # Part of the containers' definition, so that an edited file is a reason to recreate them.
  environment+=("OVERDUE_CONFIGURATION=$(configuration "$stack")")
  env "${environment[@]}" "${compose_command[@]}" --project-name "$(project_of "$stack")" \
    "${files[@]}" "$@"
}

check_ports() {
  local name number published
  published=$(containers "$1" | xargs -r docker inspect --format '{{.NetworkSettings.Ports}}')
  for name in $(port_names_of "$1"); do
    number=$(port "$1" "$name")
    if [[ $published != *" $number}"* ]] \
      && (exec 3<>"/dev/tcp/127.0.0.1/$number") 2>/dev/null; then
      die 69 "port $number is taken by another program; OVERDUE_PORT_$name moves it" \
        "(4.3's main listens there, chaos 1000 above, storm 500, cluster 600," \
        "delayed 700, and RabbitMQ 4.0's 2000 above each)"
    fi
  done
}

start_stacks() {
  local stack job jobs=() log
  log=$(mktemp -d)
  for stack; do
    containers "$stack" | xargs -r docker inspect --format '{{if .State.Paused}}{{.Id}}{{end}}' \
      | xargs -r docker unpause >/dev/null
    # shellcheck disable=SC2046 # several words
    compose "$stack" up --detach $(services_of "$stack") >"$log/$stack" 2>&1 </dev/null &
    jobs+=("$!")
  done
  for job in "${jobs[@]}"; do
    wait "$job" || {
      cat "$log"/* >&2
      rm -rf "$log"
      die 69 "compose could not start the containers"
    }
  done
  rm -rf "$log"
  for stack; do
    wait_healthy "$stack"
    [[ $stack != main ]] || copy_certificates "$(certificates_folder)"
    say "$stack is healthy: AMQP on port $(port "$stack" AMQP)," \
      "PostgreSQL on port $(port "$stack" POSTGRES)"
  done
}

wait_healthy() {
  local id service deadline=$((SECONDS + 300))
  for service in $(services_of "$1"); do
    id=$(containers "$1" "$service")
    until is_healthy "$id"; do
      if [[ $(docker inspect --format '{{.State.Status}}' "$id") =~ ^(exited|dead)$ ]] || ((SECONDS > deadline)); then
        containers "$1" | print_logs 30 >&2
        die 69 "not healthy: $(docker inspect --format '{{slice .Name 1}}, {{.State.Status}}' "$id")"
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

print_logs() { # LINES, ids on standard input
  local id
  while read -r id; do
    docker inspect --format '== {{.Name}}: {{.State.Status}}' "$id"
    docker logs --tail "$1" "$id" 2>&1
  done
}

list_stack() {
  [[ -n $(containers "$1") ]] || return 0
  docker ps --all --filter "label=com.docker.compose.project=$(project_of "$1")" \
    --format 'table {{.Names}}\t{{.Image}}\t{{.Status}}\t{{.Ports}}'
}

log_stack() { containers "$1" | print_logs 100; }

remove_stack() {
  local label
  label=label=com.docker.compose.project=$(project_of "$1")
  containers "$1" | xargs -r docker rm --force --volumes >/dev/null
  docker network ls --quiet --filter "$label" | xargs -r docker network rm >/dev/null
  docker volume ls --quiet --filter "$label" | xargs -r docker volume rm >/dev/null
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
  else
    [[ $1 != delayed ]] || name=DELAYED
    print_exports "OVERDUE_${name}_BROKER_URL" "$amqp" \
      "OVERDUE_${name}_MANAGEMENT_URL" "$management" "OVERDUE_${name}_DATABASE_URL" "$database" \
      "OVERDUE_${name}_BROKER_CONTAINER" "$(container_name "$1" rabbitmq)" \
      "OVERDUE_${name}_DATABASE_CONTAINER" "$(container_name "$1" postgres)"
  fi
  if [[ $1 == cluster ]]; then print_nodes; fi
}

certificates_folder() { echo "$root/target/tls/$project"; }

# The certificates that main's containers have made for themselves: of the CA and of a client.
copy_certificates() { # FOLDER
  local folder=$1 files=(ca.pem client.pem client.key) file new
  new=$(mktemp -d)
  # One call for all: each costs as much as everything else here.
  docker cp "$(containers main postgres):/certificates" - \
    | tar -x -C "$new" --strip-components=1 --no-same-owner "${files[@]/#/certificates/}" \
    || { rm -rf "$new" && return 1; }
  mkdir -p "$folder"
  # Renamed into their place: somebody may be reading them.
  for file in "${files[@]}"; do
    cp "$new/$file" "$folder/$file.$$" && mv "$folder/$file.$$" "$folder/$file"
  done
  rm -rf "$new"
}

# The same services over TLS, and the files that it takes. Nothing where they do not run.
print_tls_urls() {
  local folder files
  folder=$(certificates_folder)
  copy_certificates "$folder" 2>/dev/null || return 0
  files="cacertfile=$folder/ca.pem&certfile=$folder/client.pem&keyfile=$folder/client.key"
  print_exports OVERDUE_TLS_BROKER_URL "amqps://admin:admin@localhost:$(port main AMQPS)/%2f?$files" \
    OVERDUE_TLS_MANAGEMENT_URL \
    "https://admin:admin@localhost:$(port main HTTPS)?cacertfile=$folder/ca.pem" \
    OVERDUE_TLS_DATABASE_URL \
    "postgres://overdue:overdue@localhost:$(port main POSTGRES)/overdue?sslmode=verify-full&sslrootcert=$folder/ca.pem"
}

# Each node's AMQP URI and management API, their containers in the same order, and the network between them.
print_nodes() {
  local node nodes=() names=()
  for node in 1 2 3; do
    nodes+=("amqp://admin:admin@127.0.0.1:$(node_port AMQP "$node")/%2f http://admin:admin@127.0.0.1:$(node_port MANAGEMENT "$node")")
    names+=("$(container_name cluster "node$node")")
  done
  local IFS=,
  print_exports OVERDUE_CHAOS_NODES "${nodes[*]}" OVERDUE_CHAOS_BROKER_CONTAINERS "${names[*]}" \
    OVERDUE_CHAOS_NETWORK "$(project_of cluster)_cluster"
}

# print_exports NAME VALUE...: a value that is not known is left out.
print_exports() {
  while (($# > 0)); do
    [[ -z $2 ]] || printf "export %s='%s'\n" "$1" "$2"
    shift 2
  done
}

# Running, and not by being started again and again.
check_worker() {
  local id state deadline=$((SECONDS + 5))
  id=$(containers main worker)
  while ((SECONDS < deadline)); do
    state=$(docker inspect --format '{{.State.Status}} {{.RestartCount}}' "$id")
    if [[ $state != 'running 0' ]]; then
      docker stop "$id" >/dev/null
      print_logs 30 <<<"$id" >&2
      die 1 "the worker does not stay up"
    fi
    sleep 0.5
  done
  say "the worker runs; \`docker logs --follow $(container_name main worker)\` shows what it does"
}
