"""Phones of the Bitchat mesh, on Bumble: their reading of the protocol shares no code with the service.

`docs/facts/bitchat.md` says what the apps do. These are stricter: what an app would refuse is refused, and what no app would send
is noted (`App.faults`)."""
