"""Two guests on one machine share its processors: while one measures a speed, the other waits before its next test."""
from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

#: Maximum wait in seconds: the other guest may have ended without notice.
PATIENCE = 3600.0
#: Polling interval in seconds: the other guest communicates only by folders.
PAUSE = 0.5


class Turns:
    """Locks of the guests, as folders that all of them see. Creating a folder is atomic: of two attempts, one succeeds."""

    def __init__(self, folder: Path, name: str) -> None:
        """name: the name of this guest."""
        self.folder = folder
        self.busy = folder / f"busy-{name}"
        self.alone = folder / "alone"
        self.own = self.alone / name

    @asynccontextmanager
    async def turn(self, alone: bool) -> AsyncIterator[None]:
        """Runs a test. alone: whether the other guest waits meanwhile."""
        late = time.monotonic() + PATIENCE
        try:
            if alone:
                is_turn = await self._until(self._take, late) and await self._until(lambda: not any(self.folder.glob("busy-*")), late)
            else:
                is_turn = await self._until(self._join, late)
            if not is_turn:
                print(f"The other guest did not give way within {PATIENCE:.0f} s: what is shown now is shown beside it.", flush=True)
            yield
        finally:
            shutil.rmtree(self.busy, ignore_errors=True)
            if self.own.exists():
                shutil.rmtree(self.alone, ignore_errors=True)

    @staticmethod
    async def _until(holds: Callable[[], bool], late: float) -> bool:
        """Waits for a condition, and returns whether it holds."""
        while not (found := holds()) and time.monotonic() < late:
            await asyncio.sleep(PAUSE)
        return found

    def _take(self) -> bool:
        try:
            self.alone.mkdir()
        except FileExistsError:
            return False
        self.own.touch()
        return True

    def _join(self) -> bool:
        # The folder is created first, so that a guest that has taken the machine afterwards finds it.
        self.busy.mkdir(exist_ok=True)
        if not self.alone.exists():
            return True
        self.busy.rmdir()
        return False
