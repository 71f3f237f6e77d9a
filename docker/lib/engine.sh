# shellcheck shell=bash
# Finds a container engine and compose. On Debian and Ubuntu, as root, brings them if need be.

dockerd_pid_file=/run/overdue-dockerd.pid
dockerd_log=/var/log/overdue-dockerd.log

ways_forward="There are three ways forward:
  - install and start Docker, or set DOCKER_HOST if it is elsewhere;
  - run this as root on Debian or Ubuntu: it then installs the distribution's engine itself;
  - use services of your own: set OVERDUE_BROKER__URL, OVERDUE_BROKER__MANAGEMENT_URL and
    OVERDUE_DATABASE__URL."

engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# process FILE NAME: prints the pid in FILE if it is alive and runs NAME.
process() {
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 1
  [[ $(readlink "/proc/$pid/exe") == */$2 ]] && echo "$pid"
}

start_dockerd() {
  local pid deadline=$((SECONDS + 180)) containerd=/run/docker/containerd/containerd.pid
  if engine_answers; then
    return # its package has started it
  elif [[ -d /run/systemd/system ]]; then
    say "starting the service docker"
    systemctl start docker
  elif ! process "$dockerd_pid_file" dockerd >/dev/null; then
    say "starting dockerd in the background (log: $dockerd_log; \`$0 down\` stops it)"
    rm -f "$dockerd_pid_file"
    # After a kill -9 dockerd would wait for a containerd that is dead.
    process "$containerd" containerd >/dev/null || rm -f "$containerd"
    setsid dockerd --userland-proxy=false --log-level warn --pidfile "$dockerd_pid_file" \
      >"$dockerd_log" 2>&1 </dev/null &
    pid=$!
    disown
  fi
  until engine_answers; do
    if ((SECONDS > deadline)) || { [[ -n ${pid:-} && ! -e /proc/$pid/exe ]]; }; then
      [[ ! -e $dockerd_log ]] || tail -n 5 "$dockerd_log" >&2
      die 69 "the engine does not start. $ways_forward"
    fi
    sleep 0.2
  done
}

# Stops only a dockerd that start_dockerd started, and only if it runs nothing.
stop_dockerd() {
  local pid
  pid=$(process "$dockerd_pid_file" dockerd) || return 0
  [[ -z $(docker ps --quiet) ]] || return 0
  say "stopping dockerd, which this script had started"
  kill "$pid"
}

find_compose() {
  compose_command=(docker compose)
  docker compose version >/dev/null 2>&1 || compose_command=(docker-compose)
  command -v "${compose_command[0]}" >/dev/null
}

ensure_engine() {
  local wanted=() runs=yes
  if ! engine_answers; then
    [[ -z ${DOCKER_HOST:-} ]] && is_root_on_debian || die 69 "no container engine answers. $ways_forward"
    runs=
    command -v dockerd >/dev/null || wanted+=(docker.io)
    command -v iptables >/dev/null || wanted+=(iptables)
    command -v docker >/dev/null || wanted+=('docker-cli|docker.io')
  fi
  find_compose || wanted+=('docker-compose-v2|docker-compose')
  if ((${#wanted[@]} > 0)); then
    is_root_on_debian || die 69 "neither \`docker compose\` nor docker-compose is installed"
    apt_install "${wanted[@]}"
    find_compose || die 69 "docker-compose was installed and does not run"
  fi
  [[ -n $runs ]] || start_dockerd
}
