"""Who hears whom, and how fast the air is: `native/radio.c`, with which the virtual controllers run, reads it from files."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

DEAF = Path("/run/virtual-radio-deaf")
RATE = Path("/run/virtual-radio-rate")


def address(adapter: int) -> str:
    """That of a virtual controller."""
    return f"00:AA:01:{adapter:02X}:00:{adapter:02X}"


def part(pairs: Iterable[tuple[int, int]]) -> None:
    """From now on the two adapters of each of these pairs do not hear each other's advertisements; all others do. Links go on."""
    text = "".join(f"{address(one)} {address(other)}\n" for one, other in pairs)
    _write(DEAF, text)


def slow_down(rate: int | None) -> None:
    """From now on each adapter sends so many bytes of data a second, headers counted; None: data takes no time."""
    _write(RATE, f"{rate or 0}\n")


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)
