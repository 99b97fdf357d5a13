#!/bin/sh
# Calls of the service by hand, with busctl (systemd) and dbus-send (dbus). Run one line at a time, as a member of the group earshot.
#
#   shell.sh [BUS-ADDRESS]      runs the calls that change nothing, as a demonstration
set -eu

bus=${1:-unix:path=/run/dbus/system_bus_socket}

# The state of the radio, for every user.
busctl --address="$bus" get-property org.earshot /org/earshot org.earshot.Manager1 RadioState

# All objects with their properties.
dbus-send --bus="$bus" --print-reply --dest=org.earshot /org/earshot org.freedesktop.DBus.ObjectManager.GetManagedObjects

# The text of the QR code; empty while the verifier is stopped.
busctl --address="$bus" get-property org.earshot /org/earshot/verifier org.earshot.Verifier1 ConnectionUri

# The newest ten results of transfers. The first argument is 0 for the newest.
busctl --address="$bus" call org.earshot /org/earshot/verifier org.earshot.Verifier1 ListHistory tu 0 10 ||
  echo 'There is no history: HistoryFor=0s, or no state directory.'

# The metrics, as in /run/earshot/metrics.prom.
dbus-send --bus="$bus" --print-reply=literal --dest=org.earshot /org/earshot org.earshot.Manager1.GetMetrics

# Calls that change something:
#
#   busctl call org.earshot /org/earshot/verifier org.earshot.Verifier1 Start
#   busctl call org.earshot /org/earshot/verifier/credential7 org.earshot.Credential1 Accept
#   busctl call org.earshot /org/earshot/mesh org.earshot.Mesh1 Say s 'Tea at four'
#   dbus-send --system --print-reply --dest=org.earshot /org/earshot/broadcast org.earshot.Broadcast1.Send string:'hello all'
