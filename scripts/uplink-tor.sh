# Sourced by run-uplink-tor, after uplink.sh: a Tor network on the loopback interface, of Debian's tor. Three directory authorities are its
# relays and exits; they agree on a consensus every ten seconds.
# shellcheck shell=bash
# shellcheck disable=SC2154  # uplink.sh sets dir; the caller sets tor_bin

authorities=(one two three)
declare -A or_port dir_port fingerprint identity

# tor_common NAME: the settings that all processes of the network share.
tor_common() {
  cat <<CONF
TestingTorNetwork 1
DataDirectory $dir/tor-$1
RunAsDaemon 0
ShutdownWaitLength 0
Log notice stdout
AvoidDiskWrites 1
VanguardsLiteEnabled 0
CONF
  local name
  for name in "${authorities[@]}"; do
    [ -n "${identity[$name]:-}" ] || continue
    printf 'DirAuthority %s orport=%s no-v2 v3ident=%s 127.0.0.1:%s %s\n' \
      "$name" "${or_port[$name]}" "${identity[$name]}" "${dir_port[$name]}" "${fingerprint[$name]}"
  done
}

# make_authority NAME OR_PORT DIR_PORT: makes the keys of an authority.
make_authority() {
  local name=$1 keys=$dir/tor-$1/keys words
  or_port[$name]=$2 dir_port[$name]=$3
  mkdir -m 700 "$dir/tor-$name"
  mkdir -m 700 "$keys"
  printf 'secret\n' | "$tor_bin/tor-gencert" --create-identity-key --passphrase-fd 0 -m 12 -a "127.0.0.1:$3" \
    -i "$keys/authority_identity_key" -s "$keys/authority_signing_key" -c "$keys/authority_certificate" >/dev/null 2>&1 ||
    fail "tor-gencert failed"
  identity[$name]=$(awk '$1 == "fingerprint" { print $2 }' "$keys/authority_certificate")
  words=$("$tor_bin/tor" --ignore-missing-torrc -f /dev/null --quiet --list-fingerprint --ORPort 1 --Nickname "$name" \
    --DirAuthority "none 127.0.0.1:1 ffffffffffffffffffffffffffffffffffffffff" --DataDirectory "$dir/tor-$name") || true
  fingerprint[$name]=$(tr -d ' ' <<<"$words" | sed -n "s/^$name\([0-9A-F]\{40\}\)\$/\1/p")
  [ -n "${fingerprint[$name]}" ] || fail "tor has printed no fingerprint"
}

# start_authority NAME: starts an authority that is a relay and an exit.
start_authority() {
  {
    tor_common "$1"
    cat <<CONF
Nickname $1
Address 127.0.0.1
ORPort 127.0.0.1:${or_port[$1]}
DirPort 127.0.0.1:${dir_port[$1]}
SocksPort 0
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
ContactInfo nobody
AssumeReachable 1
ExitRelay 1
ExitPolicyRejectPrivate 0
ExitPolicy accept *:*
TestingDirAuthVoteExit *
TestingDirAuthVoteGuard *
TestingMinExitFlagThreshold 0
V3AuthVotingInterval 10
V3AuthVoteDelay 2
V3AuthDistDelay 2
V3AuthNIntervalsValid 3
TestingV3AuthInitialVotingInterval 5
TestingV3AuthInitialVoteDelay 2
TestingV3AuthInitialDistDelay 2
CONF
  } >"$dir/tor-$1.conf"
  serve "tor-$1" "$tor_bin/tor" -f "$dir/tor-$1.conf" --defaults-torrc /dev/null
}

# start_network PORT...: starts the authorities at six ports.
start_network() {
  local name
  for name in "${authorities[@]}"; do
    make_authority "$name" "$1" "$2"
    shift 2
  done
  for name in "${authorities[@]}"; do start_authority "$name"; done
}

# start_client NAME PORT: starts a tor with a SOCKS port. Names are found in the network as addresses of the loopback interface.
start_client() {
  mkdir -m 700 "$dir/tor-$1"
  {
    tor_common "$1"
    printf 'SocksPort 127.0.0.1:%s\nClientOnly 1\nMapAddress relay.test 127.0.0.1\n' "$2"
  } >"$dir/tor-$1.conf"
  serve "tor-$1" "$tor_bin/tor" -f "$dir/tor-$1.conf" --defaults-torrc /dev/null
}
has_bootstrapped() { grep -q 'Bootstrapped 100%' "$dir/tor-$1.out"; }
