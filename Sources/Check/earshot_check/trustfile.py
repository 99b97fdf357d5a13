"""One trust file: TOML, read into a TrustEntry, or refused with the line of the fault."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from . import certificates, contexts, keys, strictjson, trustentry
from .certificates import Certificate
from .keys import KeyProblem, PublicKey
from .reasons import Refusal
from .strictjson import Json
from .trustentry import Permit, StatusSource, TrustEntry

#: Maximum length of a trust file and of each file that it names, in bytes.
FILE_LIMIT = 1024 * 1024

Table = dict[str, Any]
_T = TypeVar("_T")

_FORMATS = frozenset({trustentry.LINKED_DATA, trustentry.SD_JWT_VC, trustentry.SD_JWT_DC, trustentry.MDOC})
_TOP = {
    "name", "identifiers", "mode", "uncovered", "interchangeable", "status_unknown",
    "keys", "roots", "contexts", "credentials", "status_lists",
}  # fmt: skip
_CHOICES = {
    "mode": ("iso", "mosip"),
    "uncovered": ("refuse", "drop"),
    "interchangeable": ("mark", "refuse"),
    "status_unknown": ("undecided", "accept"),
}
_DURATION = re.compile(r"(\d{1,6})\s*(m|h|d)\Z")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class TrustFileError(ValueError):
    """Says what is wrong with a trust file, and in which line."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


def read(path: Path) -> TrustEntry:
    """Reads a trust file and the files beside it that it names. Raises TrustFileError."""
    text = _file(path).decode("utf-8", errors="replace")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = int(where[1]) if where and where[1] else text.count("\n") + 1
        raise TrustFileError(str(error).split(" (at ")[0], line) from None
    return _Reader(path, text).entry(table)


def require_safe(path: Path) -> None:
    """Refuses a file or folder that a user other than root and the user of this process can change.

    Raises TrustFileError or OSError.
    """
    status = path.stat()
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise TrustFileError(f"{path.name} is writable by others; use chmod go-w")
    if status.st_uid not in (0, os.geteuid()):
        raise TrustFileError(f"{path.name} belongs to user {status.st_uid}, not to root")


def _file(path: Path) -> bytes:
    try:
        require_safe(path)
        with path.open("rb") as file:
            data = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise TrustFileError(f"{path.name} cannot be read: {error.strerror}") from None
    if len(data) > FILE_LIMIT:
        raise TrustFileError(f"{path.name} has over {FILE_LIMIT} bytes")
    return data


class _Reader:
    """Reads tables; its errors name the line of the key at fault."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.split("\n")

    def _error(self, text: str, key: str, table: str = "", index: int = 0) -> TrustFileError:
        return TrustFileError(text, self._line(key, table, index))

    def _line(self, key: str, table: str, index: int) -> int | None:
        """Returns the line of a key in the n-th table of a name, or of the table's head where the key is not there."""
        start, end = 0, len(self._lines)
        if table:
            heads = [n for n, line in enumerate(self._lines) if re.match(rf"\s*\[\[?\s*{table}\s*\]", line)]
            if index >= len(heads):
                return None
            start = heads[index]
        for number in range(start + 1 if table else 0, end):
            line = self._lines[number]
            if re.match(r"\s*\[", line):
                break
            if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number + 1
        heads = [n for n, line in enumerate(self._lines) if re.match(rf"\s*\[\[?\s*{re.escape(key)}\s*\]", line)]
        return start + 1 if table else heads[0] + 1 if heads else 1

    def entry(self, table: Table) -> TrustEntry:
        """Returns the entry that the file describes."""
        for key in table:
            if key not in _TOP:
                raise self._error(f"unknown key {key}", key)
        name = self._text(table, "name")
        if not name:
            raise self._error("name is missing; it is the name that is shown for the issuer", "name")
        choices = {key: self._choice(table, key) for key in _CHOICES}
        pinned = dict(self._each(table, "contexts", self._context))
        found = {**self._keys(table)}
        roots = self._each(table, "roots", self._root)
        permits = self._each(table, "credentials", lambda item, index: self._permit(item, index, pinned))
        identifiers = self._texts(table, "identifiers") or []
        if not found and not roots:
            raise self._error("the file has neither keys nor roots", "name")
        if found and not identifiers:
            raise self._error("identifiers is missing: the file must name the issuer of its keys", "identifiers")
        if not permits:
            raise self._error("the file has no [[credentials]]: the issuer may issue nothing", "name")
        self._require_distinct(permits)
        return TrustEntry(
            file=self._path.name,
            name=name,
            identifiers=frozenset(identifiers),
            keys=found,
            roots=roots,
            permits=permits,
            contexts=pinned,
            status_lists={source.url: source for source in self._each(table, "status_lists", self._status)},
            is_iso=choices["mode"] == "iso",
            drops_uncovered=choices["uncovered"] == "drop",
            refuses_interchangeable=choices["interchangeable"] == "refuse",
            accepts_unknown_status=choices["status_unknown"] == "accept",
        )

    def _require_distinct(self, permits: list[Permit]) -> None:
        """Refuses two lists of contexts for the same type: claims of one could appear under names of the other."""
        seen: list[Permit] = []
        for index, permit in enumerate(permits):
            if trustentry.LINKED_DATA not in permit.formats:
                continue
            for other in seen:
                if permit.contexts != other.contexts and (
                    permit.types & other.types or not permit.types or not other.types
                ):
                    raise self._error(
                        "two tables allow the same type with different contexts", "types", "credentials", index
                    )
            seen.append(permit)

    # Tables.

    def _each(self, table: Table, name: str, read_item: Callable[[Table, int], _T]) -> list[_T]:
        items = table.get(name, [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._error(f"{name} is not a list of tables; write [[{name}]]", name)
        return [read_item(item, index) for index, item in enumerate(items)]

    def _known(self, item: Table, known: set[str], name: str, index: int) -> None:
        for key in item:
            if key not in known:
                raise self._error(f"unknown key {key} in [[{name}]]", key, name, index)

    def _keys(self, table: Table) -> dict[str, PublicKey]:
        found: dict[str, PublicKey] = {}
        for index, listed in enumerate(self._each(table, "keys", self._key_table)):
            for name, key in listed.items():
                if name in found:
                    raise self._error(f"two keys have the id {name}", "id", "keys", index)
                found[name] = key
        return found

    def _key_table(self, item: Table, index: int) -> dict[str, PublicKey]:
        self._known(item, {"id", "pem", "jwk", "multibase", "file", "did_document"}, "keys", index)
        sources = [key for key in ("pem", "jwk", "multibase", "file", "did_document") if key in item]
        if len(sources) != 1:
            raise self._error("a key needs one of pem, jwk, multibase, file and did_document", "id", "keys", index)
        source = sources[0]
        try:
            if source == "did_document":
                document = strictjson.parse(self._beside(item, source, "keys", index))
                found = keys.from_did_document(document)
                if not found:
                    raise KeyProblem("the DID document has no key of a supported kind")
                return found
            name = item.get("id")
            if not isinstance(name, str):
                raise KeyProblem("the key has no id: the verificationMethod or kid by which credentials name it")
            return {name: self._key(item, source, index)}
        except (KeyProblem, Refusal) as error:
            raise self._error(_sentence(error), source, "keys", index) from None

    def _key(self, item: Table, source: str, index: int) -> PublicKey:
        value = item[source]
        if source == "jwk":
            return keys.from_jwk(value)
        if not isinstance(value, str):
            raise KeyProblem(f"{source} is not text")
        if source == "multibase":
            return keys.from_multibase(value)
        return keys.from_pem(
            value if source == "pem" else self._beside(item, "file", "keys", index).decode("ascii", "replace")
        )

    def _root(self, item: Table, index: int) -> Certificate:
        self._known(item, {"pem", "file"}, "roots", index)
        if ("pem" in item) == ("file" in item):
            raise self._error("a root needs one of pem and file", "pem", "roots", index)
        source = "pem" if "pem" in item else "file"
        text = item["pem"] if source == "pem" else self._beside(item, "file", "roots", index).decode("ascii", "replace")
        try:
            return certificates.from_pem(text if isinstance(text, str) else "")
        except Refusal as refusal:
            raise self._error(_sentence(refusal), source, "roots", index) from None

    def _context(self, item: Table, index: int) -> tuple[str, Json]:
        self._known(item, {"url", "file", "sha256"}, "contexts", index)
        url, digest = self._text(item, "url", "contexts", index), self._text(item, "sha256", "contexts", index)
        if not url or not digest:
            raise self._error("a context needs url, file and sha256", "url", "contexts", index)
        if url in contexts.SHIPPED:
            raise self._error(f"{url} is shipped and cannot be replaced", "url", "contexts", index)
        data = self._beside(item, "file", "contexts", index)
        if contexts.digest(data) != digest.lower():
            raise self._error(f"{item['file']} has the SHA-256 {contexts.digest(data)}", "sha256", "contexts", index)
        try:
            return url, strictjson.parse(data)
        except Refusal as refusal:
            raise self._error(_sentence(refusal), "file", "contexts", index) from None

    def _permit(self, item: Table, index: int, pinned: dict[str, Json]) -> Permit:
        self._known(item, {"formats", "types", "contexts", "claims", "allow_missing_typ"}, "credentials", index)
        formats = self._texts(item, "formats", "credentials", index)
        if not formats or not _FORMATS.issuperset(formats):
            raise self._error(
                f"formats must be a list of {', '.join(sorted(_FORMATS))}", "formats", "credentials", index
            )
        types = self._texts(item, "types", "credentials", index)
        claims = self._texts(item, "claims", "credentials", index)
        missing = item.get("allow_missing_typ", False)
        if not isinstance(missing, bool):
            raise self._error("allow_missing_typ must be true or false", "allow_missing_typ", "credentials", index)
        return Permit(
            frozenset(formats),
            frozenset(types or ()),
            self._context_lists(item, index, pinned),
            None if claims is None else frozenset(claims),
            missing,
        )

    def _context_lists(self, item: Table, index: int, pinned: dict[str, Json]) -> list[list[Json]] | None:
        if "contexts" not in item:
            return None
        lists = item["contexts"]
        if not isinstance(lists, list) or not lists:
            raise self._error("contexts must be the list of contexts of a credential", "contexts", "credentials", index)
        if not isinstance(lists[0], list):
            lists = [lists]
        for listed in lists:
            for context in listed if isinstance(listed, list) else [listed]:
                if isinstance(context, str) and context not in contexts.SHIPPED and context not in pinned:
                    text = f"the context {context} is not pinned by a [[contexts]] table"
                    raise self._error(text, "contexts", "credentials", index)
                if not isinstance(context, (str, dict)):
                    raise self._error("a context must be an address or a table", "contexts", "credentials", index)
        return lists

    def _status(self, item: Table, index: int) -> StatusSource:
        self._known(item, {"url", "max_age", "issuer"}, "status_lists", index)
        url = self._text(item, "url", "status_lists", index)
        if not url:
            raise self._error("a status list needs a url", "url", "status_lists", index)
        age = self._text(item, "max_age", "status_lists", index) or ""
        match = _DURATION.match(age)
        if match is None:
            raise self._error("max_age must be a duration such as 30m, 24h or 7d", "max_age", "status_lists", index)
        duration = timedelta(**{_UNITS[match[2]]: int(match[1])})
        return StatusSource(url, duration, self._text(item, "issuer", "status_lists", index))

    # Values.

    def _text(self, table: Table, key: str, name: str = "", index: int = 0) -> str | None:
        value = table.get(key)
        if value is not None and not isinstance(value, str):
            raise self._error(f"{key} is not text", key, name, index)
        return value

    def _texts(self, table: Table, key: str, name: str = "", index: int = 0) -> list[str] | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(f"{key} is not a list of texts", key, name, index)
        return value

    def _choice(self, table: Table, key: str) -> str:
        value = table.get(key, _CHOICES[key][0])
        if value not in _CHOICES[key]:
            raise self._error(f"{key} must be {' or '.join(_CHOICES[key])}", key)
        return str(value)

    def _beside(self, item: Table, key: str, name: str, index: int) -> bytes:
        """Reads a file that is named relative to the trust file, and not outside of its folder."""
        value = item.get(key)
        if not isinstance(value, str) or value.startswith("/") or ".." in value.split("/"):
            raise self._error(f"{key} must name a file below the folder of the trust file", key, name, index)
        try:
            return _file(self._path.parent / value)
        except TrustFileError as error:
            raise self._error(str(error), key, name, index) from None


def _sentence(error: Exception) -> str:
    return error.finding.sentence if isinstance(error, Refusal) else str(error)
