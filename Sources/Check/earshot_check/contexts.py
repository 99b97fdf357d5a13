"""JSON-LD contexts: shipped ones, and those that a trust entry pins. Nothing is fetched."""

from __future__ import annotations

import hashlib
from pathlib import Path

from . import strictjson
from .strictjson import Json

_FOLDER = Path(__file__).parent / "contexts"

CREDENTIALS_V1 = "https://www.w3.org/2018/credentials/v1"
CREDENTIALS_V2 = "https://www.w3.org/ns/credentials/v2"
#: MOSIP canonicalises proof options under a frozen copy of this context. Facts: credentials.md section 1.4
SECURITY_V3 = "https://w3id.org/security/v3"

#: Shipped contexts: address, file, SHA-256 of the file.
SHIPPED: dict[str, tuple[str, str]] = {
    CREDENTIALS_V1: (
        "credentials-v1.jsonld",
        "ab4ddd9a531758807a79a5b450510d61ae8d147eab966cc9a200c07095b0cdcc",
    ),
    CREDENTIALS_V2: (
        "credentials-v2.jsonld",
        "59955ced6697d61e03f2b2556febe5308ab16842846f5b586d7f1f7adec92734",
    ),
    "https://w3id.org/security/data-integrity/v1": (
        "data-integrity-v1.jsonld",
        "b5d829bd09aa7c42abc6efa0c8ed7635313b5487f37ccfce3ecd149ca9418554",
    ),
    "https://w3id.org/security/data-integrity/v2": (
        "data-integrity-v2.jsonld",
        "67f21e6e33a6c14e5ccfd2fc7865f7474fb71a04af7e94136cb399dfac8ae8f4",
    ),
    "https://w3id.org/security/suites/ed25519-2018/v1": (
        "ed25519-2018-v1.jsonld",
        "166c6abb9e08176cee5f6c87c9c1bbfefa5717da391bcac525e5437f93eab809",
    ),
    "https://w3id.org/security/suites/ed25519-2020/v1": (
        "ed25519-2020-v1.jsonld",
        "b9e1ab971fd8bf2c7553e0c4a9438e0b9450afde1ea1ca5b2492368b9f549588",
    ),
    "https://w3id.org/security/suites/jws-2020/v1": (
        "jws-2020-v1.jsonld",
        "d648e05ddc6577827ca2bfd5e931f53e9ebc6e52a57a8da81df4ec8c46ffcd1e",
    ),
    "https://w3id.org/security/suites/secp256k1-2019/v1": (
        "secp256k1-2019-v1.jsonld",
        "8452efdde151151539b78d240f55cee7d9cc985bf078123ce310aa7ae04763b4",
    ),
    "https://w3id.org/security/v1": (
        "security-v1.jsonld",
        "abaf97e107d1925503c433dcaf3ffd2831697cacc1ed2a293e1bc8030d5bcb47",
    ),
    "https://w3id.org/security/v2": (
        "security-v2.jsonld",
        "611bd81151d5efe53ec9aed78f5a813e577287bc9451ee26d6879b1b8b46bc3b",
    ),
    SECURITY_V3: (
        "security-v3.jsonld",
        "311be32772d8e42f96c1a6ae899e3fa15efb06c27cfd207d86e8abb9951a3e74",
    ),
}


def digest(data: bytes) -> str:
    """Returns the SHA-256 by which contexts are pinned, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def shipped(url: str) -> Json | None:
    """Returns a shipped context document, or None. Raises ValueError for a file that was changed."""
    if url not in SHIPPED:
        return None
    name, expected = SHIPPED[url]
    data = (_FOLDER / name).read_bytes()
    if digest(data) != expected:
        raise ValueError(f"the shipped context {name} was changed")
    return strictjson.parse(data)


class ContextLibrary:
    """The contexts that a document may use: the shipped ones and those of one trust entry."""

    def __init__(self, pinned: dict[str, Json] | None = None) -> None:
        self._pinned = dict(pinned or {})
        self._loaded: dict[str, Json] = {}
        #: The first context that was asked for and is not in the library.
        self.missing: str | None = None

    def document(self, url: str) -> Json | None:
        """Returns a context document, or None and remembers what was missing."""
        if url not in self._loaded:
            document = shipped(url) if url in SHIPPED else self._pinned.get(url)
            if document is None:
                self.missing = self.missing or url
                return None
            self._loaded[url] = document
        return self._loaded[url]

    def load(self, url: str, _options: object) -> dict[str, Json]:
        """Loads a context for PyLD."""
        document = self.document(url)
        if document is None:
            raise LookupError(url)
        return {"contentType": "application/ld+json", "contextUrl": None, "documentUrl": url, "document": document}
