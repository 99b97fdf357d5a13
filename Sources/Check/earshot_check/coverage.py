"""Which parts of a JSON-LD document its signature covers, and which claims can change places.

A signature covers the RDF statements of a document. JSON-LD drops what no context defines, and several names may stand
for one IRI. So each leaf is changed, and each name replaced, to see whether the statements change.
Facts: credentials.md section 1.5
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .canonical import Canonicaliser, Dataset
from .contexts import ContextLibrary
from .reasons import Refusal
from .strictjson import Json

#: Maximum leaves and names of a document. Each may take a conversion to RDF, of 2 to 4 ms.
LEAF_LIMIT = 500
#: Maximum tries of other names for one document.
RENAME_LIMIT = 300

#: The way to a value: keys and indices from the top of the document.
Path = tuple[str | int, ...]
#: Names whose values decide what other names mean, so that they are tried one by one.
_STRUCTURAL = ("type", "id")
_LANGUAGE = "language"


@dataclass(frozen=True)
class Statement:
    """An RDF statement: where it stands in the graph, with and without its language, and its object."""

    place: str
    plain_place: str
    value: str
    language: str


#: Statements of a document by their text.
Statements = dict[str, Statement]


@dataclass
class Coverage:
    """What the signature of a document does not cover."""

    #: Paths of leaves that can be changed without breaking the signature.
    unsigned: set[Path] = field(default_factory=set)
    #: Groups of claim names whose values can change places without breaking the signature.
    interchangeable: list[list[str]] = field(default_factory=list)

    def covers(self, path: Path) -> bool:
        """Says whether the signature covers the value at a path, with all that is in it."""
        return not any(leaf[: len(path)] == path for leaf in self.unsigned)


def measure(document: Json, canonicaliser: Canonicaliser, library: ContextLibrary) -> Coverage:
    """Finds out what the signature of a document without its proof covers. Raises Refusal("tooComplex")."""
    return _Measurement(document, canonicaliser, library).run()


def text(path: Path) -> str:
    """Writes a path for people: `credentialSubject.name.0`."""
    return ".".join(str(part) for part in path)


def claim_name(path: Path) -> str:
    """Returns the name of a claim of the subject: its path without `credentialSubject` and without indices."""
    return ".".join(part for part in path[1:] if isinstance(part, str))


def leaves(value: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yields every leaf of a value but null, and empty objects and arrays."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif value is not None and value != {} and value != []:
        yield path, value


def _names(value: Json, path: Path) -> Iterator[Path]:
    """Yields the path of every key inside a value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from _names(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _names(item, (*path, index))


class _Measurement:
    def __init__(self, document: Json, canonicaliser: Canonicaliser, library: ContextLibrary) -> None:
        self._document = document
        self._canonicaliser = canonicaliser
        self._library = library
        self._coverage = Coverage()
        self._before = _statements(canonicaliser.dataset(document))
        #: Claim names by the place in the graph where their values appear.
        self._places: dict[frozenset[str], set[str]] = {}

    def run(self) -> Coverage:
        found = [(path, value) for path, value in leaves(self._document) if path[0] != "@context"]
        subject = self._document.get("credentialSubject")
        names = list(_names(subject, ("credentialSubject",)))
        if len(found) + len(names) > LEAF_LIMIT:
            raise Refusal("tooComplex", f"{len(found) + len(names)} values and names; {LEAF_LIMIT} are allowed")
        texts = [leaf for leaf in found if isinstance(leaf[1], str) and _last(leaf[0]) not in (*_STRUCTURAL, _LANGUAGE)]
        languages = [leaf for leaf in found if isinstance(leaf[1], str) and _last(leaf[0]) == _LANGUAGE]
        covered = self._try_together(texts, "~{}~") | self._try_together(languages, "-x{}")
        for path, value in found:
            if path not in covered:
                self._try_leaf(path, value)
        self._try_names(names)
        self._coverage.interchangeable = self._groups(names)
        return self._coverage

    def _try_together(self, found: list[tuple[Path, str]], mark: str) -> set[Path]:
        """Changes many leaves at once, each with its own marker, and returns those that are certainly covered.

        The result counts only where every statement stands where it stood before: then no change had an effect on
        another leaf. The other leaves are tried one by one.
        """
        changed = copy.deepcopy({key: value for key, value in self._document.items() if key != "@context"})
        changed["@context"] = self._document["@context"]
        for number, (path, value) in enumerate(found):
            _value(changed, path[:-1])[path[-1]] = value + mark.format(number)
        try:
            after = _statements(self._canonicaliser.dataset(changed))
        except Refusal:
            return set()
        if sorted(item.plain_place for item in after.values()) != sorted(
            item.plain_place for item in self._before.values()
        ):
            return set()
        by_end: dict[str, Statement] = {}
        for statement in after.values():
            for text_ in (statement.value, statement.language):
                by_end[text_[text_.rfind(mark[0], 0, -1) :]] = statement
        covered = set()
        for number, (path, _) in enumerate(found):
            statement_ = by_end.get(mark.format(number))
            if statement_ is not None:
                covered.add(path)
                self._note(path, {statement_.place if mark[0] == "~" else statement_.plain_place})
        return covered

    def _note(self, path: Path, places: set[str]) -> None:
        if path[0] == "credentialSubject":
            self._places.setdefault(frozenset(places), set()).add(claim_name(path))

    def _try_leaf(self, path: Path, value: Json) -> None:
        after = self._after(lambda parent, key: parent.__setitem__(key, _changed(value)), [path])
        if after is None:
            return
        added = {item.place for line, item in after.items() if line not in self._before}
        if not added and after.keys() == self._before.keys():
            self._coverage.unsigned.add(path)
        elif added:
            self._note(path, added)

    def _try_names(self, names: list[Path]) -> None:
        """Finds names that are not signed, such as keys of an index map. Tries all names of one depth, then each."""
        for depth in {len(path) for path in names}:
            paths = [path for path in names if len(path) == depth]
            renamed = self._after(lambda parent, key: parent.__setitem__(f"{key}x", parent.pop(key)), paths)
            removed = self._after(lambda parent, key: parent.pop(key), paths)
            if renamed is not None and removed is not None:
                left = (renamed.keys() & self._before.keys()) - removed.keys()
                if not left:
                    continue
            for path in paths:
                if self._is_same_with_name(path, f"{path[-1]}x"):
                    self._coverage.unsigned |= {(*path, *rest) for rest, _ in leaves(_value(self._document, path))}

    def _is_same_with_name(self, path: Path, name: str) -> bool:
        after = self._after(lambda parent, key: parent.__setitem__(name, parent.pop(key)), [path])
        return after is not None and after.keys() == self._before.keys()

    def _after(self, change: Callable[[Json, Any], object], paths: list[Path]) -> Statements | None:
        """Returns the statements of a changed copy; None if the change makes it invalid, which is noticed as well."""
        changed = dict(self._document)
        for key in {str(path[0]) for path in paths}:
            changed[key] = copy.deepcopy(changed[key])
        for path in paths:
            change(_value(changed, path[:-1]), path[-1])
        try:
            return _statements(self._canonicaliser.dataset(changed))
        except Refusal:
            return None

    def _groups(self, names: list[Path]) -> list[list[str]]:
        groups = [set(group) for group in self._places.values() if len(group) > 1]
        tries = 0
        synonyms = _synonyms(self._library, self._document)
        done: set[str] = set()
        for path in names:
            name, key = claim_name(path), str(path[-1])
            if name in done:
                continue
            done.add(name)
            siblings = _value(self._document, path[:-1])
            for other in synonyms.get(key, ()):
                if other in siblings or tries >= RENAME_LIMIT or not self._coverage.covers(path):
                    continue
                tries += 1
                if self._is_same_with_name(path, other):
                    groups.append({name, claim_name((*path[:-1], other))})
        return _joined(groups)


def _last(path: Path) -> str:
    """Returns the last name of a path."""
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _joined(groups: list[set[str]]) -> list[list[str]]:
    """Joins groups that have a member in common."""
    joined: list[set[str]] = []
    for group in groups:
        apart = [other for other in joined if not other & group]
        joined = [*apart, group.union(*(other for other in joined if other & group))]
    return sorted(sorted(group) for group in joined)


def _changed(value: Json) -> Json:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, int):
        return value + 1
    return 2.5 if value == 1.5 else 1.5


def _value(document: Json, path: Path) -> Json:
    for part in path:
        document = document[part]
    return document


def _synonyms(library: ContextLibrary, document: Json) -> dict[str, list[str]]:
    """Returns, for each term of the document's contexts, other terms that seem to stand for the same IRI."""
    definitions: dict[str, set[str]] = {}
    prefixes: dict[str, str] = {}
    pending: list[Json] = [document["@context"]]
    seen: set[str] = set()
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, str):
            if item not in seen and (loaded := library.document(item)) is not None:
                seen.add(item)
                pending.append(loaded.get("@context") if isinstance(loaded, dict) else None)
        elif isinstance(item, dict):
            for term, definition in item.items():
                iri = definition.get("@id") if isinstance(definition, dict) else definition
                if isinstance(definition, dict) and "@context" in definition:
                    pending.append(definition["@context"])
                # A second name for the identifier or the type of a node cannot be confused with a claim.
                if isinstance(iri, str) and not term.startswith("@") and not iri.startswith("@"):
                    definitions.setdefault(iri, set()).add(term)
                    prefixes.setdefault(term, iri)
    by_iri: dict[str, set[str]] = {}
    for iri, terms in definitions.items():
        prefix, _, rest = iri.partition(":")
        by_iri.setdefault(prefixes.get(prefix, prefix + ":") + rest, set()).update(terms)
    return {term: sorted(terms - {term}) for terms in by_iri.values() if len(terms) > 1 for term in terms}


def _statements(dataset: Dataset) -> Statements:
    """Writes each statement as text, with its place: predicates from a named node, and the kind of its object."""
    parents: dict[str, str] = {}
    for statements in dataset.values():
        for statement in statements:
            if statement["object"]["type"] == "blank node":
                above, predicate = statement["subject"]["value"], statement["predicate"]["value"]
                parents.setdefault(statement["object"]["value"], f"{above} {predicate}")
    result: Statements = {}
    for graph, statements in dataset.items():
        for statement in statements:
            subject, predicate, object_ = (statement[part] for part in ("subject", "predicate", "object"))
            language = str(object_.get("language") or "")
            kind = f"{object_['type']} {object_.get('datatype', '')}"
            line = f"{graph} {subject['value']} {predicate['value']} {kind} {language} {object_['value']}"
            plain = f"{_way(subject['value'], parents)} {predicate['value']} {kind}"
            result[line] = Statement(f"{plain} {language}", plain, object_["value"], language)
    return result


def _way(node: str, parents: dict[str, str]) -> str:
    """Returns the predicates that lead to a blank node, from the last node that has a name."""
    way: list[str] = []
    while node.startswith("_:") and node in parents and len(way) < 64:
        node, _, predicate = parents[node].partition(" ")
        way.append(predicate)
    return " ".join(["" if node.startswith("_:") else node, *reversed(way)])
