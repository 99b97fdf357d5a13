#!/bin/sh
# Marks an installation after a removal without a purge. The postinst then gets the version of the removed package, as for an upgrade,
# but must start the service.
set -e
if [ "$1" = install ] && [ -n "${2:-}" ] && [ -d /run/systemd/system ]; then
  : >/run/@UNIT@.reinstalled
fi
