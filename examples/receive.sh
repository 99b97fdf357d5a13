#!/bin/sh
# Fetches and stores each credential that the kiosk receives, and accepts or rejects it by the verdict of earshot-check.
#
#   receive.sh FOLDER           needs jq, the group earshot, and Check=yes in earshot.conf
set -eu
folder=${1:?a folder for the credentials}
mkdir -p "$folder"

# Replace this function: a credential may be genuine and still not of the kind that you want. The line has issuer, type and claims.
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
    # The wallet is notified if it is still connected. From now on, the stored file is the only copy.
    earshot transfers "$answer" "$transfer" || true # another program has judged it
  done
