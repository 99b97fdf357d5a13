#!/bin/sh
# Stops the service when its package is removed. An upgrade does not stop it; the postinst restarts it.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  if [ -e /lib/systemd/system/@UNIT@.socket ] || [ -e /usr/lib/systemd/system/@UNIT@.socket ]; then
    deb-systemd-invoke stop @UNIT@.socket >/dev/null || true
  fi
  deb-systemd-invoke stop @UNIT@.service >/dev/null || true
fi
