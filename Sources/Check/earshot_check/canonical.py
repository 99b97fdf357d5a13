"""JSON-LD to RDF, and RDF in canonical form (RDFC-1.0), with limits.

PyLD does both. What it lacks is added here: a limit of blank nodes and of work, the hash of the signature inside the
canonicalisation (P-384 takes SHA-384), and refusal of names that would be written as several statements.
Facts: credentials.md section 1.4
"""

from __future__ import annotations

import hashlib
import re
import warnings
from typing import Any

from cachetools import LRUCache
from pyld import jsonld
from pyld.context_resolver import ContextResolver

from .contexts import ContextLibrary
from .reasons import Refusal
from .strictjson import Json

#: Maximum blank nodes of a document.
BLANK_NODE_LIMIT = 64
#: Maximum visits of blank nodes to distinguish equal ones. The W3C tests take 468; poisoned graphs have no bound.
WORK_LIMIT = 2000
#: Maximum statements of a document.
STATEMENT_LIMIT = 10_000

#: Characters that N-Quads do not allow in an IRI. A line end in one would be read as the end of the statement.
_BAD_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_LANGUAGE = re.compile(r"[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*\Z")

#: An RDF dataset as PyLD has it: graphs by name, each a list of statements.
Dataset = dict[str, list[dict[str, Any]]]


class Canonicaliser:
    """Turns JSON-LD documents into RDF statements and canonical N-Quads, with the contexts of one library."""

    def __init__(self, library: ContextLibrary) -> None:
        self._library = library
        self._resolver = ContextResolver(LRUCache(maxsize=200), library.load)

    def dataset(self, document: Json) -> Dataset:
        """Returns the statements of a document. Relative IRIs are dropped: the base IRI is empty.

        Raises Refusal: "contextUnknown", "malformed" or "tooComplex".
        """
        options = {
            "base": "",
            "documentLoader": self._library.load,
            "contextResolver": self._resolver,
            "extractAllScripts": False,
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                dataset: Dataset = jsonld.to_rdf(_integral(document), options)
        except RecursionError:
            raise Refusal("tooComplex", "the document is nested too deep") from None
        except (jsonld.JsonLdError, ValueError, TypeError, KeyError, AttributeError, LookupError) as error:
            if self._library.missing is not None:
                raise Refusal("contextUnknown", self._library.missing) from None
            code = getattr(error, "code", None) or type(error).__name__
            raise Refusal("malformed", f"not JSON-LD: {code}") from None
        _check(dataset)
        return dataset

    def canonical(self, document: Json, hash_name: str = "sha256") -> str:
        """Returns the canonical N-Quads of a document."""
        return canonical(self.dataset(document), hash_name)


def canonical(dataset: Dataset, hash_name: str = "sha256") -> str:
    """Returns the canonical N-Quads of a dataset, which the call consumes. Raises Refusal("tooComplex")."""
    try:
        text: str = _BoundedRDFC(hash_name).main(dataset, {"format": "application/n-quads"})
    except RecursionError:
        raise Refusal("tooComplex", "blank nodes refer to each other too often") from None
    return text


def _integral(value: Json) -> Json:
    """Turns numbers such as 1.0 into integers: JSON-LD does not distinguish them from 1, but PyLD does."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integral(item) for item in value]
    return value


def _check(dataset: Dataset) -> None:
    blank_nodes: set[str] = set()
    count = 0
    for name, statements in dataset.items():
        if name != "@default":
            _iri(name, blank_nodes)
        count += len(statements)
        if count > STATEMENT_LIMIT:
            raise Refusal("tooComplex", f"over {STATEMENT_LIMIT} statements")
        for statement in statements:
            for part in statement.values():
                if part is None:
                    raise Refusal("malformed", "a list contains a relative IRI")
                if part["type"] == "literal":
                    if not isinstance(part["value"], str):
                        raise Refusal("malformed", "a literal is not text")
                    _iri(part["datatype"], blank_nodes)
                    language = part.get("language")
                    if language and not _LANGUAGE.match(language):
                        raise Refusal("malformed", "a language tag is malformed")
                else:
                    _iri(part["value"], blank_nodes)
    if len(blank_nodes) > BLANK_NODE_LIMIT:
        raise Refusal("tooComplex", f"{len(blank_nodes)} blank nodes; {BLANK_NODE_LIMIT} are allowed")


def _iri(name: str, blank_nodes: set[str]) -> None:
    if name.startswith("_:"):
        blank_nodes.add(name)
    elif _BAD_IRI.search(name):
        raise Refusal("malformed", "an identifier contains a character that is not allowed in an IRI")


class _BoundedRDFC(jsonld.URDNA2015):  # type: ignore[misc]
    """RDFC-1.0 with a limit of work and a choice of hash."""

    def __init__(self, hash_name: str) -> None:
        super().__init__()
        self._hash_name = hash_name
        self._work = 0

    def create_hash(self) -> Any:
        return hashlib.new(self._hash_name)

    def hash_n_degree_quads(self, id_: str, issuer: Any) -> Any:
        self._work += 1
        if self._work > WORK_LIMIT:
            raise Refusal("tooComplex", "blank nodes refer to each other too often")
        return super().hash_n_degree_quads(id_, issuer)
