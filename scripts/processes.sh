# Read by the scripts that run services on a bus of their own: every process that they start is recorded, and stopped in reverse
# order, however the script ends. They set `bin` to where the programs are.
# shellcheck shell=bash
# shellcheck disable=SC2154  # bin is theirs

# Seconds after which what should have come by itself never will; far more than a slow machine with other work needs.
patience=120

# --- What is started is written down, and ended in turn, however this script ends.

pids=()     # everything, in the order of its start
services=() # what must live as long as the run
logs=()     # whose last words explain a failure
dir=
terminal=

# Only what this shell started and has not seen end: a number alone may be somebody else's by now.
alive() { [[ $'\n'$(jobs -pr)$'\n' == *$'\n'"$1"$'\n'* ]]; }

# start NAME COMMAND...: in the background, its words in NAME.out and NAME.err; `started` is its process.
start() {
  local name=$1
  shift
  # Should this script be killed outright, what it started goes too.
  if have setpriv; then set -- setpriv --pdeathsig TERM -- "$@"; fi
  "$@" </dev/null >"$dir/$name.out" 2>"$dir/$name.err" &
  started=$!
  pids+=("$started")
}

# serve NAME COMMAND...: the same for what runs to the end, and whose words are a log.
serve() {
  start "$@"
  services+=("$started")
  logs+=("$1")
}

# stop PID: asks, waits three seconds, then ends it.
stop() {
  local tick
  alive "$1" || return 0
  kill -TERM "$1" 2>/dev/null || true
  for ((tick = 0; tick < 60; tick++)); do
    alive "$1" || break
    sleep 0.05
  done
  if alive "$1"; then kill -KILL "$1" 2>/dev/null || true; fi
  wait "$1" 2>/dev/null || true
}

# shellcheck disable=SC2317  # called by the trap
clean_up() {
  trap '' INT TERM HUP
  [ -z "$terminal" ] || stty "$terminal" 2>/dev/null || true
  local index
  # The last started depends on those before it.
  for ((index = ${#pids[@]} - 1; index >= 0; index--)); do stop "${pids[index]}"; done
  [ -z "$dir" ] || rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# fail SENTENCE [SIDE...]: the logs' last lines, then what the sides say themselves, then the sentence.
fail() {
  local sentence=$1 name words
  shift
  for name in "${logs[@]}"; do
    # Two ordinary lines do not explain a failure: that the bus may not raise its limits, and where the simulated radio listens.
    words=$(cat "$dir/$name.out" "$dir/$name.err" | grep -v 'Failed to set fd limit\|^The simulated radio is at' | tail -n 15) || true
    [ -z "$words" ] || printf -- '--- the end of the log of %s\n%s\n' "$name" "$words" >&2
  done
  [ ${#logs[@]} = 0 ] || printf -- '---\n' >&2
  for name in "$@"; do sed "s/^/$name: /" "$dir/$name.err" >&2; done
  warn "$sentence"
  exit 1
}

# tell SENTENCE: the next numbered step of a demonstration, wrapped at words.
step=0
tell() {
  step=$((step + 1))
  printf '%d. %s\n' "$step" "$*" | fold -s -w 79
}

# make_folder: for all files of the run, in `dir`; the bus will be at `bus`.
make_folder() {
  # A socket's path has 107 bytes, and a bus address escapes what is not plain.
  local base=${TMPDIR:-/tmp}
  [[ $base =~ ^[A-Za-z0-9/_.-]{1,60}$ ]] || base=/tmp
  dir=$(mktemp -d "$base/earshot.XXXXXX")
  bus=unix:path=$dir/bus
}

# await SOCKET NAME: until the process just started listens.
await() {
  local tick
  for ((tick = 0; tick < patience * 20; tick++)); do
    if [ -S "$1" ]; then return; fi
    alive "$started" || fail "$2 ended at once"
    sleep 0.05
  done
  fail "$2 does not listen"
}

# await_service NAME OPTION...: until the service started last answers the tool, called with these options.
await_service() {
  local asked status=0 name=$1
  shift
  "$bin/earshot" --bus "$bus" "$@" status --wait "$patience" </dev/null >"$dir/status.out" 2>"$dir/status.err" &
  asked=$!
  pids+=("$asked")
  while alive "$asked"; do
    alive "$started" || fail "$name ended at once"
    sleep 0.05
  done
  wait "$asked" || status=$?
  [ $status = 0 ] || fail "$name does not answer on the bus" status
}

# write_bus_configuration: a bus where everybody may do everything.
write_bus_configuration() {
  cat >"$dir/bus.conf" <<END
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
  "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>$bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
END
}

# leave_the_session: neither this shell's manager nor its buses are those of the services.
leave_the_session() {
  unset NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID LISTEN_FDS LISTEN_PID JOURNAL_STREAM INVOCATION_ID
  unset DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DBUS_STARTER_ADDRESS DBUS_STARTER_BUS_TYPE
}

# require_programs: whether there is what the run needs.
require_programs() {
  local program
  have dbus-daemon || die 1 "dbus-daemon is not here; scripts/deps run installs it"
  for program in earshotd earshot earshot-air; do
    [ -x "$bin/$program" ] || die 1 "$bin/$program is not built; make run does it"
  done
}
