# Debian with systemd and with the modules for names that desktops have: docker/test-packages.sh installs the packages in it.
ARG BASE=debian:trixie-slim
FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates libnss-mdns libnss-myhostname libnss-resolve rpm systemd \
 && rm -rf /var/lib/apt/lists/* \
 # What is about the whole machine.
 && systemctl mask systemd-modules-load systemd-sysctl systemd-udevd
# A cgroup v2 at its root, also where the machine still has v1.
CMD ["sh", "-c", "umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec /lib/systemd/systemd"]
