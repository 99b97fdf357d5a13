"""Primitives: numbers of JCS, encodings, CBOR, dates, keys and chains of certificates."""

from __future__ import annotations

import random
import struct
from datetime import datetime, timezone
from typing import Any

import cbor2
import issuer
import pytest
from cryptography import x509
from world import time

from earshot_check import cbor, certificates, dates, encodings, jcs, keys
from earshot_check.cbor import Tag
from earshot_check.certificates import Certificate
from earshot_check.dates import Clock
from earshot_check.reasons import Refusal


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        # RFC 8785, appendix B.
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_ecmascript_does(bits: str, text: str) -> None:
    assert jcs.number(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


def test_an_integer_that_a_double_does_not_hold_is_refused() -> None:
    assert jcs.number(2**53) == "9007199254740992" and jcs.number(10**20) == "100000000000000000000"
    for value in (2**53 + 1, -(2**53) - 1, 10**400):
        with pytest.raises(Refusal):
            jcs.number(value)


def test_keys_are_sorted_by_utf_16() -> None:
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}
    assert jcs.canonical(value).decode() == '{"\\r":2,"1":4,"\x80":6,"\xf6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}'


def test_base58_and_base64url_are_read_as_they_are_written() -> None:
    dice = random.Random(1)  # noqa: S311
    for _ in range(200):
        data = bytes(dice.randrange(dice.choice([2, 256])) for _ in range(dice.randrange(40)))
        assert encodings.base58(encodings.to_base58(data)) == data
        assert encodings.base64url(encodings.to_base64url(data)) == data


@pytest.mark.parametrize("text", ["A", "AB=", "AB==", "A+", "AB", "AAB", "A A", "\u0661\u0661", "AA\n"])
def test_base64url_has_one_form(text: str) -> None:
    with pytest.raises(ValueError, match="base64url"):
        encodings.base64url(text)


def plain(value: Any) -> Any:
    """Converts a value of this reader to one of cbor2."""
    if isinstance(value, Tag):
        return cbor2.CBORTag(value.number, plain(value.value))
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def random_value(dice: random.Random, depth: int = 0) -> Any:
    """Makes a value that both readers support."""
    kind = dice.randrange(10 if depth < 4 else 7)
    match kind:
        case 0:
            return dice.randrange(-(2 ** dice.choice([4, 8, 16, 32, 63])), 2 ** dice.choice([4, 8, 16, 32, 63]))
        case 1:
            return bytes(dice.randrange(256) for _ in range(dice.randrange(30)))
        case 2 | 3:
            return "".join(chr(dice.choice([65, 233, 8364, 128512])) for _ in range(dice.randrange(30)))
        case 4:
            return dice.choice([True, False, None])
        case 5 | 6:
            return dice.choice([0.5, -1.25, 3e300, 0.1])
        case 7:
            return [random_value(dice, depth + 1) for _ in range(dice.randrange(6))]
        case 8:
            return {dice.choice([str(n), n]): random_value(dice, depth + 1) for n in range(dice.randrange(6))}
        case _:
            return cbor2.CBORTag(2000 + dice.randrange(9), random_value(dice, depth + 1))


def test_cbor_is_read_as_cbor2_reads_it() -> None:
    dice = random.Random(2)  # noqa: S311
    for _ in range(500):
        data = cbor2.dumps(random_value(dice))
        assert plain(cbor.parse(data)) == cbor2.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        "", "18", "1c", "5f4100ff", "9fff", "bfff", "ff", "f800", "f81f", "a2010201 03", "a20101", "62ff", "62c328",
        "0000", "a1f501", "a1f9000001",
        "a1400000", "9bffffffffffffffff", "bb0000000100000000", "5bffffffffffffffff", "f97e00",
        "81" * 65 + "00", "c0" * 65 + "00",
    ],
)  # fmt: skip
def test_cbor_that_is_not_strict_is_refused(data: str) -> None:
    with pytest.raises(Refusal):
        cbor.parse(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00.123456789+05:30", "2026-01-31T06:30:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_dates_are_read(text: str, expected: str) -> None:
    assert dates.text(dates.parse(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31",
        "2026-13-01T00:00:00Z",
        "soon",
        "",
        None,
        5,
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+09:00",
        "2026-01-31T12:00:00Z\n",
    ],
)
def test_text_that_is_not_a_date_is_refused(text: Any) -> None:
    with pytest.raises(Refusal):
        dates.parse(text)


def test_a_date_in_seconds_may_lie_far_in_the_future() -> None:
    assert dates.from_seconds(1e300).year == 9999
    for value in (-1, True, "5", None, [1]):
        with pytest.raises(Refusal):
            dates.from_seconds(value)


def test_clocks_may_differ_by_five_minutes() -> None:
    begin, end = time("2026-01-01T00:00:00"), time("2026-02-01T00:00:00")
    for at, codes in (
        ("2025-12-31T23:54:59", ["notYetValid"]),
        ("2025-12-31T23:55:01", []),
        ("2026-02-01T00:04:59", []),
        ("2026-02-01T00:05:01", ["expired"]),
    ):
        assert [finding.code for finding in dates.findings(Clock(time(at)), begin, end)] == codes


def test_small_rsa_keys_and_other_curves_are_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa

    for key in (
        rsa.generate_private_key(65537, 1024),  # noqa: S505
        ec.generate_private_key(ec.SECP521R1()),
        dsa.generate_private_key(1024),  # noqa: S505
    ):
        with pytest.raises(keys.KeyProblem):
            keys.from_pem(issuer.public_pem(key))


# Chains.


def made(certificate: x509.Certificate) -> Certificate:
    """Reads a certificate as the checker does."""
    return certificates.from_der(issuer.der(certificate))


class Authority:
    """A root, an intermediate authority and a signer."""

    def __init__(self, **options: Any) -> None:
        self.root_key, self.middle_key, self.leaf_key = (issuer.new_key(name) for name in ("RS256", "ES384", "ES256"))
        self.root = issuer.certificate("Root", self.root_key, is_ca=True, **options.get("root", {}))
        by_root = (options.get("middle_issuer", self.root), options.get("middle_signer", self.root_key))
        middle: dict[str, Any] = {"is_ca": True, **options.get("middle", {})}
        self.middle = issuer.certificate("Middle", self.middle_key, by_root, **middle)
        self.leaf = issuer.certificate("Leaf", self.leaf_key, (self.middle, self.middle_key), **options.get("leaf", {}))

    def path(self) -> list[str]:
        """Returns the names of the path that the checker finds."""
        sent = [made(self.leaf), made(self.middle)]
        return [certificate.name for certificate in certificates.chain(sent, [made(self.root)])]


def test_a_chain_of_three_leads_to_its_root() -> None:
    assert Authority().path() == ["CN=Leaf,C=ZZ", "CN=Middle,C=ZZ", "CN=Root,C=ZZ"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"middle": {"is_ca": False}}, "certificateUnfit"),
        ({"root": {"path_length": 0}}, "certificateUnfit"),
        ({"middle": {"signs": True, "is_ca": False}}, "certificateUnfit"),
        ({"middle_signer": issuer.new_key("ES256")}, "chainUntrusted"),
        ({"leaf": {"extra": ((x509.NameConstraints([x509.DNSName("a.example")], None), True),)}}, "certificateUnfit"),
        ({"leaf": {"signs": False}}, "certificateUnfit"),
    ],
)
def test_a_chain_that_breaks_a_rule_is_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(Refusal, match=code):
        Authority(**options).path()


def test_a_root_sent_with_the_credential_is_not_trusted() -> None:
    mine, other = Authority(), Authority()
    sent = [made(other.leaf), made(other.middle), made(other.root)]
    with pytest.raises(Refusal, match="chainUntrusted"):
        certificates.chain(sent, [made(mine.root)])


def test_a_loop_of_certificates_ends() -> None:
    one, two = issuer.new_key("ES256"), issuer.new_key("ES256")
    first = issuer.certificate("One", one, is_ca=True)
    second = issuer.certificate("Two", two, (first, one), is_ca=True)
    again = issuer.certificate("One", one, (second, two), is_ca=True)
    with pytest.raises(Refusal, match="chainUntrusted"):
        certificates.chain([made(again), made(second)], [made(Authority().root)])


def test_certificates_are_valid_in_their_time_only() -> None:
    path = [
        made(issuer.certificate("x", issuer.new_key("ES256"), begin=datetime(2025, 1, 1, tzinfo=timezone.utc), days=30))
    ]
    for at, codes in (
        ("2024-12-01", ["certificateNotYetValid"]),
        ("2025-01-15", []),
        ("2025-03-01", ["certificateExpired"]),
    ):
        assert [finding.code for finding in certificates.findings(path, Clock(time(at)))] == codes


def test_alternative_names_bind_a_certificate_to_an_issuer() -> None:
    key = issuer.new_key("ES256")
    named = made(
        issuer.certificate("x", key, names=(x509.DNSName("a.example"), x509.UniformResourceIdentifier("urn:b")))
    )
    for name, expected in (
        ("https://a.example/x", True),
        ("https://A.example", True),
        ("did:web:a.example:x", True),
        ("urn:b", True),
        ("https://b.example", False),
        ("https://a.example.evil", False),
        ("a.example", False),
    ):
        assert certificates.names_issuer(named, name) == expected
    assert certificates.names_issuer(made(issuer.certificate("x", key)), "https://anything.example")


def test_a_certificate_with_any_byte_changed_is_read_or_refused() -> None:
    data = issuer.der(issuer.certificate("x", issuer.new_key("ES256"), names=(x509.DNSName("a.example"),)))
    dice = random.Random(3)  # noqa: S311
    for position in range(len(data)):
        for _ in range(4):
            changed = data[:position] + bytes([dice.randrange(256)]) + data[position + 1 :]
            try:
                read = certificates.from_der(changed)
            except Refusal:
                continue
            assert isinstance(read.alternative_names, list) and isinstance(read.purposes, list)
            assert read.constraints is None or read.constraints.ca in (True, False)
            read.is_signed_by(read)
