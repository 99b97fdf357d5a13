#!/bin/sh
# Takes what wallets bring to the kiosk: fetches each credential, stores it, and answers by the verdict of earshot-check.
#
#   receive.sh FOLDER           needs jq, the group earshot, and Check=yes in earshot.conf
set -eu
folder=${1:?a folder for the credentials}
mkdir -p "$folder"

# Yours to write: a credential may be genuine and still not the one that you want. The line has issuer, type and claims.
is_wanted() { [ "$(printf '%s\n' "$1" | jq -r .type)" != "" ]; }

# watch stores each credential in a file of its own, reports it when the disk has it, then reports its verdict, and waits for a
# service that restarts. A pipeline returns the status of its last command, so the status of watch is passed as a last line.
{ earshot verifier watch --json --waiting --output "$folder/" || echo "status $?"; } |
  while read -r line; do
    case $line in "status "*) exit "${line#status }" ;; esac
    transfer=$(printf '%s\n' "$line" | jq -r '.transfer // empty')
    case $(printf '%s\n' "$line" | jq -r '.verdict // empty') in
    valid) if is_wanted "$line"; then answer=accept; else answer=reject; fi ;;
    "" | undecided) continue ;; # another event, or a credential that a person has to judge
    *) answer=reject ;;
    esac
    # The wallet hears this, if it is still there; from then on there is no other copy than yours.
    earshot transfers "$answer" "$transfer" || true # somebody else judged it
  done
