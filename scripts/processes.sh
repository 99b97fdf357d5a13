# Sourced by the scripts that run services on a private bus. Every process that they start is recorded, and stopped in reverse
# order when the script ends for any reason. They set `bin` to the folder of the programs.
# shellcheck shell=bash
# shellcheck disable=SC2154  # the caller sets bin

# Time limit in seconds for each awaited event; far more than a slow, loaded machine needs.
patience=120

# --- Processes that are started are recorded, and stopped when this script ends.

pids=()     # everything, in the order of its start
services=() # processes that must run until the end
logs=()     # names of the logs whose ends are shown after a failure
dir=
terminal=

# Whether a child of this shell still runs. A process ID alone may belong to another process by now.
alive() { [[ $'\n'$(jobs -pr)$'\n' == *$'\n'"$1"$'\n'* ]]; }

# start NAME COMMAND...: runs it in the background, with its output in NAME.out and NAME.err, and sets `started` to its process ID.
start() {
  local name=$1
  shift
  # If this script is killed with SIGKILL, its children are terminated too.
  if have setpriv; then set -- setpriv --pdeathsig TERM -- "$@"; fi
  "$@" </dev/null >"$dir/$name.out" 2>"$dir/$name.err" &
  started=$!
  pids+=("$started")
}

# serve NAME COMMAND...: starts a service that must run until the end; its output is a log.
serve() {
  start "$@"
  services+=("$started")
  logs+=("$1")
}

# stop PID: sends SIGTERM, and SIGKILL after three seconds.
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

# fail SENTENCE [SIDE...]: prints the ends of the logs, the error output of each side, and the sentence, and exits with 1.
fail() {
  local sentence=$1 name words
  shift
  for name in "${logs[@]}"; do
    # Two ordinary lines are not shown: the bus cannot raise its limits, and the socket of the simulated radio.
    words=$(cat "$dir/$name.out" "$dir/$name.err" | grep -v 'Failed to set fd limit\|^The simulated radio is at' | tail -n 15) || true
    [ -z "$words" ] || printf -- '--- the end of the log of %s\n%s\n' "$name" "$words" >&2
  done
  [ ${#logs[@]} = 0 ] || printf -- '---\n' >&2
  for name in "$@"; do sed "s/^/$name: /" "$dir/$name.err" >&2; done
  warn "$sentence"
  exit 1
}

# tell SENTENCE: prints the next numbered step of a demonstration, wrapped at words.
step=0
tell() {
  step=$((step + 1))
  printf '%d. %s\n' "$step" "$*" | fold -s -w 79
}

# make_folder: makes the folder `dir` for all files of the run, and sets `bus` to the address of the private bus.
make_folder() {
  # The path of a socket has at most 107 bytes, and a bus address would escape other characters.
  local base=${TMPDIR:-/tmp}
  [[ $base =~ ^[A-Za-z0-9/_.-]{1,60}$ ]] || base=/tmp
  dir=$(mktemp -d "$base/earshot.XXXXXX")
  bus=unix:path=$dir/bus
}

# await SOCKET NAME: waits until the process that was started last listens at the socket.
await() {
  local tick
  for ((tick = 0; tick < patience * 20; tick++)); do
    if [ -S "$1" ]; then return; fi
    alive "$started" || fail "$2 ended immediately"
    sleep 0.05
  done
  fail "$2 did not listen within $patience s"
}

# await_service NAME OPTION...: waits until the service that was started last answers the tool, called with these options.
await_service() {
  local asked status=0 name=$1
  shift
  "$bin/earshot" --bus "$bus" "$@" status --wait "$patience" </dev/null >"$dir/status.out" 2>"$dir/status.err" &
  asked=$!
  pids+=("$asked")
  while alive "$asked"; do
    alive "$started" || fail "$name ended immediately"
    sleep 0.05
  done
  wait "$asked" || status=$?
  [ $status = 0 ] || fail "$name did not answer on the bus within $patience s" status
}

# until_true WHAT COMMAND...: repeats the command until it succeeds; fails after the time limit. The output of the command is dropped.
until_true() {
  local what=$1 tick
  shift
  for ((tick = 0; tick < patience * 5; tick++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  fail "not reached within $patience s: $what"
}

# write_bus_configuration: writes the configuration of a bus without restrictions.
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

# leave_the_session: removes this shell's service manager and buses from the environment of the services.
leave_the_session() {
  unset NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID LISTEN_FDS LISTEN_PID JOURNAL_STREAM INVOCATION_ID
  unset DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DBUS_STARTER_ADDRESS DBUS_STARTER_BUS_TYPE
}

# require_programs: exits with 1 if a program that the run needs is missing.
require_programs() {
  local program
  have dbus-daemon || die 1 "dbus-daemon is not installed; scripts/deps run installs it"
  for program in earshotd earshot earshot-air; do
    [ -x "$bin/$program" ] || die 1 "$bin/$program is not built; make run builds it"
  done
}
