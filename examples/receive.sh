#!/bin/sh
# Takes what wallets bring to the kiosk: fetches each credential, stores it, judges it, and only then answers.
#
#   receive.sh FOLDER           needs jq, and the group earshot
set -eu
folder=${1:?a folder for the credentials}
mkdir -p "$folder"

# Yours to write: verify the signature, the issuer, the expiry. earshotd verifies none of it.
is_wanted() { grep -q credential "$1"; }

# watch stores each credential in a file of its own, reports it when the disk has it, and waits for a service that restarts.
# A pipeline returns the status of its last command, so the status of watch is passed as a last line.
{ earshot verifier watch --json --waiting --output "$folder/" || echo "status $?"; } |
  while read -r line; do
    case $line in "status "*) exit "${line#status }" ;; esac
    transfer=$(printf '%s\n' "$line" | jq -r '.transfer // empty')
    file=$(printf '%s\n' "$line" | jq -r '.file // empty')
    [ -n "$file" ] || continue # a transfer that failed, a verdict, or trouble with the radio
    if is_wanted "$file"; then verdict=accept; else verdict=reject; fi
    # The wallet hears this, if it is still there; from then on there is no other copy than yours.
    earshot transfers "$verdict" "$transfer" || true # somebody else judged it
  done
