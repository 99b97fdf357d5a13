"""Phones of the Bitchat mesh, on Bumble: their implementation of the protocol shares no code with the service.

`docs/facts/bitchat.md` describes the apps. These phones are stricter: they refuse everything that an app would refuse, and record
everything that no app would send (`App.faults`)."""
