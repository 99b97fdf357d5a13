"""The trust folder: which issuers are trusted, with which keys, for which credentials.

A folder holds one TOML file per issuer. docs/check.md describes the format.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import trustfile
from .reasons import Refusal
from .trustentry import Permit, TrustEntry

#: Where the administrator keeps trusted issuers.
FOLDER = Path("/etc/earshot/issuers.d")


@dataclass(frozen=True)
class Problem:
    """The reason why a file, or a part of it, is not used."""

    file: str
    line: int | None
    text: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.text}"


@dataclass
class TrustFolder:
    """The usable entries of a trust folder, and what is wrong with the others."""

    entries: list[TrustEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @staticmethod
    def read(folder: Path) -> TrustFolder:
        """Reads every TOML file of a folder. A broken file disables nothing but itself."""
        result = TrustFolder()
        try:
            trustfile.require_safe(folder)
            names = sorted(name for name in os.listdir(folder) if name.endswith(".toml") and not name.startswith("."))
        except FileNotFoundError:
            return result
        except (OSError, trustfile.TrustFileError) as error:
            result.problems.append(Problem(str(folder), None, _why(error)))
            return result
        for name in names:
            try:
                result.entries.append(trustfile.read(folder / name))
            except trustfile.TrustFileError as error:
                result.problems.append(Problem(name, error.line, str(error)))
        return result

    def issued_by(self, identifier: str) -> list[TrustEntry]:
        """Returns the entries that name an issuer. Raises Refusal("issuerUnknown")."""
        found = [entry for entry in self.entries if identifier in entry.identifiers]
        if not found:
            raise Refusal("issuerUnknown", identifier)
        return found


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def allowed(entries: list[TrustEntry], format_: str) -> list[TrustEntry]:
    """Returns the entries that allow a format. Raises Refusal("formatNotAllowed")."""
    found = [entry for entry in entries if format_ in entry.formats()]
    if not found:
        raise Refusal("formatNotAllowed", format_)
    return found


def permitted(entries: list[TrustEntry], format_: str, types: Iterable[str]) -> list[tuple[TrustEntry, Permit]]:
    """Returns entries with their permits for a format and a type.

    Raises Refusal: "formatNotAllowed" or "typeNotAllowed".
    """
    listed = list(types)
    found = [
        (entry, permit)
        for entry in allowed(entries, format_)
        for permit in entry.permits
        if format_ in permit.formats and permit.allows_type(listed)
    ]
    if not found:
        raise Refusal("typeNotAllowed", ", ".join(listed))
    return found
