"""The range and the speed of the virtual radio: `native/radio.c`, in which the virtual controllers run, reads them from files."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

DEAF = Path("/run/virtual-radio-deaf")
RATE = Path("/run/virtual-radio-rate")


def address(adapter: int) -> str:
    """The address of a virtual controller."""
    return f"00:AA:01:{adapter:02X}:00:{adapter:02X}"


def part(pairs: Iterable[tuple[int, int]]) -> None:
    """From now on the two adapters of each of these pairs do not receive each other's advertisements; all others do. Links stay."""
    text = "".join(f"{address(one)} {address(other)}\n" for one, other in pairs)
    _write(DEAF, text)


def slow_down(rate: int | None) -> None:
    """From now on each adapter sends at most this number of bytes a second, with headers; None: without a limit."""
    _write(RATE, f"{rate or 0}\n")


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)
