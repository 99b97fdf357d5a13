# Sourced by the demonstrations of the uplink, after common.sh: the tool for each node, conditions, and the processes of a node.
# They set `bin` to the folder of the programs, and call make_folder.
# shellcheck shell=bash
# shellcheck disable=SC2154  # processes.sh sets dir, bus, started and patience
# shellcheck source=scripts/processes.sh
. "$top/scripts/processes.sh"

# check_programs NEEDED...: ends the script if a program is missing.
check_programs() {
  local needed
  for needed in dbus-daemon python3 openssl jq "$@"; do
    have "$needed" || die 1 "$needed is not installed; scripts/deps run installs it"
  done
  for needed in earshot earshot-air earshotd earshot-nostrd; do
    [ -x "$bin/$needed" ] || die 1 "$bin/$needed is not built; make run UPLINK=1 builds it"
  done
}

# free_ports COUNT: prints free TCP ports of the loopback interface.
free_ports() {
  python3 -c '
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in sockets))' "$1"
}

# make_certificate: makes relay.pem and relay.key for the name relay.test.
make_certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=relay.test \
    -addext subjectAltName=DNS:relay.test -keyout "$dir/relay.key" -out "$dir/relay.pem" 2>/dev/null
}

# uplink_conf NAME PORT OPTIONS: the configuration of a node's earshot-nostrd with a proxy at this port.
uplink_conf() {
  printf '[Uplink]\nProxy=127.0.0.1:%s\nRelays=%s\nOptions=%s\nTrustedCertificates=%s\nMesh=org.earshot.%s\n' \
    "$2" "${relays:-wss://relay.test}" "$3" "$dir/relay.pem" "$1"
  printf '[Store]\nDirectory=%s\n' "$dir/$1.uplink"
}

# befriend: anna and ben, who are in range of each other, make each other favourites. Sets `anna` and `ben` to their peer IDs.
befriend() {
  until_true "anna knows ben" knows anna ben
  until_true "ben knows anna" knows ben anna
  ben=$(peer_id ben)
  anna=$(peer_id anna)
  node anna mesh favourite "$ben" >/dev/null
  node ben mesh favourite "$anna" >/dev/null
  until_true "anna and ben are mutual favourites" is_mutual anna
  until_true "ben and anna are mutual favourites" is_mutual ben
}

# node NAME COMMAND...: calls the tool for the node. uplink NAME: the state of its uplink, as JSON.
node() {
  local name=$1
  shift
  "$bin/earshot" --bus "$bus" --bus-name "org.earshot.$name" "$@"
}
uplink() { "$bin/earshot" --bus "$bus" --bus-name "org.earshot.Nostr.$1" mesh uplink "${@:2}"; }

is() { uplink "$1" --json | jq -e --arg state "$2" '.state == $state'; }
knows() { node "$1" mesh peers --json | jq -e --arg name "$2" 'any(.[]; .nickname == $name and .hops > 0)'; }
is_mutual() { node "$1" mesh peers --json | jq -e 'any(.[]; .favourite and .favouriteOfPeer)'; }
# has NAME TEXT WAY: whether the log has the text exactly once, and by which way it went or came.
has() {
  node "$1" mesh log --json |
    jq -se --arg text "$2" --arg way "$3" 'map(select(.text == $text)) | length == 1 and .[0].way == $way'
}
state() {
  node "$1" mesh log --json | jq -se --arg text "$2" --arg state "$3" 'any(.text == $text and .state == $state)'
}
peer_id() { node "$1" mesh show --json | jq -r .peer; }
listens() { grep -q listening "$dir/$1.out"; }

# node_conf NAME PLACE: the configuration of a node at a place in a line.
node_conf() {
  printf '[Radio]\nBackend=air\nAirSocket=%s\nAdapter=C0:00:00:00:00:%s\n\n' "$dir/air" "$2"
  printf '[Store]\nDirectory=%s\n\n[Wallet]\nEnabled=no\n\n[Verifier]\nEnabled=no\n\n' "$dir/$1.state"
  printf '[Mesh]\nEnabled=yes\nNickname=%s\nTrustClock=yes\n' "$1"
}

declare -A process
# Processes whose network namespace the earshotd of a node uses; none: that of this script.
declare -A home
# settle NAME PLACE: starts the earshotd of a node at a place, or starts it again at another place.
settle() {
  if [ -n "${process[$1]:-}" ]; then
    forget "$1"
    stop "${process[$1]}"
  fi
  node_conf "$1" "$2" >"$dir/$1.conf"
  join "$1"
}

# forget NAME: the process is no longer one that must run until the end.
forget() {
  local index
  for index in "${!services[@]}"; do
    if [ "${services[index]}" = "${process[$1]}" ]; then unset 'services[index]'; fi
  done
}

# join NAME: starts the earshotd of a node where it was. link NAME: starts its earshot-nostrd.
join() {
  local way=()
  [ -z "${home[$1]:-}" ] || way=(nsenter "--net=/proc/${home[$1]}/ns/net")
  serve "earshotd-$1" "${way[@]}" "$bin/earshotd" --bus "$bus" --bus-name "org.earshot.$1" --config "$dir/$1.conf"
  process[$1]=$started
  await_service "$1" --bus-name "org.earshot.$1"
}
link() {
  serve "earshot-nostrd-$1" "$bin/earshot-nostrd" --bus "$bus" --bus-name "org.earshot.Nostr.$1" \
    --config "$dir/$1.uplink.conf"
  process[link-$1]=$started
}
