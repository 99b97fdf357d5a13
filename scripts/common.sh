# Sourced by the other scripts: the project's folder, functions for output, and the toolchain in PATH.
# shellcheck shell=bash

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export top
export SWIFT_BACKTRACE=enable=no

# A toolchain from swift.org's archive is expected in /opt/swift; one in PATH takes precedence.
case ":$PATH:" in
*:/opt/swift/usr/bin:*) ;;
*) PATH="$PATH:/opt/swift/usr/bin" ;;
esac

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
  local status=$1
  shift
  warn "$@"
  exit "$status"
}

have() { command -v "$1" >/dev/null 2>&1; }

# swift_version: prints the compiler's version ("6.0.3"), or nothing.
swift_version() {
  have swift || return 0
  local words
  words=$(swift --version 2>/dev/null) || return 0
  if [[ $words =~ Swift\ version\ ([0-9]+(\.[0-9]+)*) ]]; then printf '%s\n' "${BASH_REMATCH[1]}"; fi
}

# at_least VERSION MAJOR MINOR: whether VERSION is not older.
at_least() {
  local major minor
  IFS=. read -r major minor _ <<<"$1"
  ((${major:-0} > $2 || (${major:-0} == $2 && ${minor:-0} >= $3)))
}
