"""The trust entry of one issuer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from .certificates import Certificate
from .contexts import SHIPPED
from .keys import PublicKey
from .reasons import Refusal
from .strictjson import Json

#: Every format, by the name that OpenID4VCI gives it.
LINKED_DATA, SD_JWT_VC, SD_JWT_DC, MDOC = "ldp_vc", "vc+sd-jwt", "dc+sd-jwt", "mso_mdoc"


@dataclass(frozen=True)
class Permit:
    """A kind of credential that an issuer may issue: a [[credentials]] table of a trust file."""

    formats: frozenset[str]
    #: Allowed types; a credential needs one of them. Empty: any.
    types: frozenset[str]
    #: The exact lists of JSON-LD contexts; None: shipped contexts in any order.
    contexts: list[list[Json]] | None
    #: Names of claims that may be shown and delivered; None: all that are covered.
    claims: frozenset[str] | None
    #: Whether an SD-JWT may lack `typ`.
    allows_missing_typ: bool = False

    def allows_contexts(self, contexts: list[Json]) -> bool:
        """Says whether a document may have this list of contexts. Order and repetition matter: they redefine terms."""
        if self.contexts is not None:
            return contexts in self.contexts
        return all(isinstance(context, str) and context in SHIPPED for context in contexts)

    def allows_type(self, types: Iterable[str]) -> bool:
        """Says whether one of the types of a credential is allowed."""
        return not self.types or not self.types.isdisjoint(types)


@dataclass(frozen=True)
class StatusSource:
    """A status list of an issuer: its address, its greatest age, and who signs it if not the issuer."""

    url: str
    max_age: timedelta
    issuer: str | None


@dataclass(frozen=True)
class TrustEntry:
    """A trusted issuer."""

    file: str
    name: str
    identifiers: frozenset[str]
    keys: dict[str, PublicKey]
    roots: list[Certificate]
    permits: list[Permit]
    contexts: dict[str, Json]
    status_lists: dict[str, StatusSource]
    is_iso: bool
    drops_uncovered: bool
    refuses_interchangeable: bool
    accepts_unknown_status: bool

    def key(self, name: str) -> PublicKey:
        """Returns the key of an id. Raises Refusal("keyUnknown")."""
        key = self.keys.get(name)
        if key is None:
            raise Refusal("keyUnknown", name)
        return key

    def formats(self) -> set[str]:
        """Returns every format that the issuer may use."""
        return {format_ for permit in self.permits for format_ in permit.formats}
