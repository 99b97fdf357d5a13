# shellcheck shell=sh
# Starts the service after the installation, also after a removal without a purge, or restarts a running service after an upgrade. If its
# configuration has become invalid, the process of the previous version continues, and the new version reports what is wrong.
# debian/rules adds this text to the postinst of each package with a daemon.
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
  # The bus read the policy when the files were unpacked. It ignores rules for users and groups that did not exist then.
  busctl --quiet call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig >/dev/null || true
  first='@FIRST@'
  # debian/mark.sh makes the mark.
  mark=/run/@UNIT@.reinstalled
  if [ -z "${2:-}" ] || [ -e "$mark" ]; then
    rm -f "$mark"
    if [ -n "$first" ]; then deb-systemd-invoke "$first" @UNIT@.service || true; fi
  elif systemctl --quiet is-active @UNIT@.service; then
    if /usr/bin/@UNIT@ --check-config >/dev/null; then
      deb-systemd-invoke try-restart @UNIT@.service || true
    else
      echo "@UNIT@ was not restarted: its configuration has the problems above. The process of version $2 continues." >&2
      echo "Correct the problems, then: systemctl restart @UNIT@" >&2
    fi
  fi
fi
