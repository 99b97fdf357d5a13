"""Every limit of these tests was written for a guest of the reference speed (`harness/pace.py`); on a slower one all of them
stretch. A limit only ends what hangs: no test judges how long something took."""
from __future__ import annotations

#: A guest that is slower than this has a different fault.
MOST = 8.0

_slowness = 1.0


def stretch(slowness: float) -> float:
    """Sets the factor of all limits, within bounds, and returns it."""
    global _slowness
    _slowness = min(max(slowness, 1.0), MOST)
    return _slowness


def slowness() -> float:
    return _slowness


def limit(seconds: float) -> float:
    """A limit in seconds, scaled for this guest."""
    return seconds * _slowness
