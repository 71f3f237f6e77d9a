#!/bin/sh
# dpkg says `remove` and rpm `0` if no newer version takes its place.
case "$1" in
  remove | 0) [ ! -d /run/systemd/system ] || systemctl disable --now overdue.service ;;
esac
