"""`earshot-check status update`: fetches the status lists that trust files name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from . import dates, fetch, status
from .dates import Clock
from .reasons import Refusal
from .status import StatusChecker
from .trust import TrustFolder
from .trustentry import StatusSource, TrustEntry


def run(trust_folder: Path, status_folder: Path, get: Callable[[str], bytes] = fetch.get) -> int:
    """Fetches every list, and stores those whose signature is right. Returns 1 if one failed; the stored one stays."""
    folder = TrustFolder.read(trust_folder)
    for problem in folder.problems:
        print(f"earshot-check: {trust_folder}/{problem}", file=sys.stderr)
    checker = StatusChecker(status_folder, folder, Clock.of_machine())
    has_failed = bool(folder.problems)
    sources = [(source, entry) for entry in folder.entries for source in entry.status_lists.values()]
    for source, entry in sources:
        try:
            data = get(source.url)
            signed = _require_good(data, source, entry, checker)
            status_folder.mkdir(parents=True, exist_ok=True)
            # The checker has a user of its own for each run, and lists are public.
            status_folder.chmod(0o755)
            _store(status_folder / status.file_name(source.url), data)
            print(f"{source.url}: stored, signed at {dates.text(signed)}")
        except fetch.FetchError as error:
            has_failed = True
            print(f"earshot-check: {error}", file=sys.stderr)
        except Refusal as refusal:
            has_failed = True
            print(f"earshot-check: {source.url}: {refusal.finding.sentence}", file=sys.stderr)
    if not sources:
        print("No trust file names a status list.")
    return 1 if has_failed else 0


def _require_good(data: bytes, source: StatusSource, entry: TrustEntry, checker: StatusChecker) -> datetime:
    """Returns when a list was signed. Raises Refusal for one that no credential could use."""
    if data.lstrip().startswith(b"{"):
        return checker.bitstring_list(data, source, entry)[-1]
    return checker.token_list(data, source, entry)[-1]


def _store(path: Path, data: bytes) -> None:
    """Replaces a file as a whole: a check that runs meanwhile reads the old list or the new one."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.chmod(0o644)
    temporary.replace(path)
