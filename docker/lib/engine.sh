# shellcheck shell=bash
# Finds a container engine and compose. On Debian and Ubuntu, as root, brings them if need be.

dockerd_pid_file=/run/overdue-dockerd.pid
containerd_pid_file=/run/docker/containerd/containerd.pid
dockerd_log=/var/log/overdue-dockerd.log

ways_forward="There are three ways forward:
  - install and start Docker, or set DOCKER_HOST if it is elsewhere;
  - run this as root on Debian or Ubuntu: it then installs the distribution's engine itself;
  - use services of your own: set OVERDUE_BROKER__URL, OVERDUE_BROKER__MANAGEMENT_URL and
    OVERDUE_DATABASE__URL."

engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

is_root_on_debian() {
  [[ $(id -u) == 0 && -e /etc/debian_version ]] && command -v apt-get >/dev/null
}

# logged MESSAGE COMMAND...: shows the command's output only if it fails, then ends with MESSAGE.
logged() {
  local message=$1 log
  shift
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || {
    tail -n 30 "$log" >&2
    rm -f "$log"
    die 69 "$message"
  }
  rm -f "$log"
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 --yes "$@"; }

# apt_install PACKAGE...: of alternatives, written a|b, the first that the distribution has.
apt_install() {
  local wanted packages=()
  # A foreign source that does not answer is no reason to stop.
  apt update >/dev/null 2>&1 </dev/null || true
  for wanted; do
    packages+=("$(first_package "${wanted%%|*}" "${wanted##*|}")")
  done
  say "installing from the distribution's packages: ${packages[*]}"
  # What an interrupted run left half installed.
  dpkg --configure -a >/dev/null 2>&1 </dev/null || true
  logged "could not install ${packages[*]}" apt install --no-install-recommends "${packages[@]}"
}

first_package() {
  local package
  for package; do
    if [[ -n $(apt-cache search --names-only "^${package//./\\.}\$") ]]; then
      echo "$package"
      return
    fi
  done
}

# process FILE NAME: prints the pid in FILE if that is alive and runs NAME. A dead process that
# nobody has waited for is not alive: it has no program any more.
process() {
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 1
  [[ $(readlink "/proc/$pid/exe") == */$2 ]] && echo "$pid"
}

started_dockerd() { process "$dockerd_pid_file" dockerd; }

start_dockerd() {
  local pid deadline=$((SECONDS + 180))
  if engine_answers; then
    return # its package has started it
  elif [[ -d /run/systemd/system ]]; then
    say "starting the service docker"
    systemctl start docker
  elif ! started_dockerd >/dev/null; then
    say "starting dockerd in the background (log: $dockerd_log; \`$0 down\` stops it)"
    rm -f "$dockerd_pid_file"
    # After a kill -9 dockerd would wait for a containerd that is dead.
    process "$containerd_pid_file" containerd >/dev/null || rm -f "$containerd_pid_file"
    setsid dockerd --userland-proxy=false --log-level warn --pidfile "$dockerd_pid_file" >"$dockerd_log" 2>&1 </dev/null &
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
  local pid deadline=$((SECONDS + 30))
  pid=$(started_dockerd) || return 0
  if [[ -n $(docker ps --quiet) ]]; then
    say "leaving dockerd running: other containers use it"
    return 0
  fi
  say "stopping dockerd, which this script had started"
  kill "$pid"
  while started_dockerd >/dev/null; do
    ((SECONDS < deadline)) || die 1 "dockerd (pid $pid) does not stop"
    sleep 0.2
  done
}

find_compose() {
  if docker compose version >/dev/null 2>&1; then
    compose_command=(docker compose)
  elif command -v docker-compose >/dev/null; then
    compose_command=(docker-compose)
  else
    return 1
  fi
}

ensure_engine() {
  local wanted=()
  if ! engine_answers; then
    if [[ -n ${DOCKER_HOST:-} ]] || ! is_root_on_debian; then
      die 69 "no container engine answers. $ways_forward"
    fi
    command -v dockerd >/dev/null || wanted+=(docker.io)
    command -v iptables >/dev/null || wanted+=(iptables)
    command -v docker >/dev/null || wanted+=('docker-cli|docker.io')
    find_compose || wanted+=('docker-compose-v2|docker-compose')
    ((${#wanted[@]} == 0)) || apt_install "${wanted[@]}"
    start_dockerd
  fi
  if ! find_compose; then
    is_root_on_debian || die 69 "neither \`docker compose\` nor docker-compose is installed"
    apt_install 'docker-compose-v2|docker-compose'
    find_compose || die 69 "docker-compose was installed and does not run"
  fi
}
