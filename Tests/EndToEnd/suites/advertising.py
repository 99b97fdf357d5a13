"""The advertisements, byte for byte, as a phone's controller reports them."""
from __future__ import annotations

import json

from harness.runner import Suite
from harness.stage import SETTINGS, Stage
from phones.mesh.radio import is_of_node
from phones.phone import Sighting
from phones.tuvali import DIALECTS, Dialect, Invitation, service_list, structures
from suites.formats import VECTORS

suite = Suite("advertising")
FLAGS = 0x01


def expected(dialect: Dialect, invitation: Invitation) -> tuple[bytes, bytes]:
    """Advertising data and scan response: those of the vectors, with the kiosk's key."""
    vectors = json.loads(VECTORS.read_text())
    theirs = bytes.fromhex(vectors["keys"]["verifier_public_hex"])
    profile = {"0.5": "tuvali_0_5", "0.4": "tuvali_0_2_4_to_0_4_9"}[dialect.name]
    case = next(
        case
        for case in vectors["advertising"]["cases"]
        if case["profile"] == profile and case["name"] == invitation.name
    )
    data, answer = bytes.fromhex(case["adv_data_hex"]), bytes.fromhex(case["scan_response_hex"])
    return data.replace(theirs[:5], invitation.key[:5]), answer.replace(theirs[5:], invitation.key[5:])


def without_flags(data: bytes) -> bytes:
    """The data without flags, whose value and position the platform chooses."""
    return b"".join(bytes([1 + len(body), kind]) + body for kind, body in structures(data) if kind != FLAGS)


@suite.test("Both dialects are on the air at once, byte for byte as the original sends them")
async def both(stage: Stage) -> None:
    invitation = Invitation.parse(await stage.set())
    missing = set(DIALECTS)
    seen: dict[str, Sighting] = {}

    def collect(sighting: Sighting) -> bool | None:
        for dialect in DIALECTS.values():
            if dialect.service in service_list(sighting.data):
                seen[dialect.name] = sighting
                missing.discard(dialect.name)
        return None if missing else True

    await stage.phone.look(collect)
    for name, dialect in DIALECTS.items():
        data, answer = expected(dialect, invitation)
        found = seen[name]
        assert without_flags(found.data) == without_flags(data), f"{name}: {found.data.hex()}, not {data.hex()}"
        flags = [body for kind, body in structures(found.data) if kind == FLAGS]
        assert len(flags) == 1 and len(flags[0]) == 1, f"{name}: the flags are {flags}"
        assert found.scan_response == answer, f"{name}: {found.scan_response.hex()}, not {answer.hex()}"
    stage.measure(f"{len(seen['0.5'].data)} and {len(seen['0.5'].scan_response)} bytes")


@suite.test("A kiosk that is a node of the mesh has its two invitations and the mesh's advertisement on the air at once")
async def three(stage: Stage) -> None:
    await stage.set({**SETTINGS, "Mesh": {"Enabled": "yes", "Nickname": "kiosk", "TrustClock": "yes"}})
    seen: dict[str, Sighting] = {}

    def collect(sighting: Sighting) -> bool | None:
        for dialect in DIALECTS.values():
            if dialect.service in service_list(sighting.data):
                seen[dialect.name] = sighting
        if is_of_node(sighting.data):
            seen["mesh"] = sighting
        return len(seen) == len(DIALECTS) + 1 or None

    await stage.phone.look(collect)
    addresses = {sighting.address.to_string(False) for sighting in seen.values()}
    assert len(addresses) == 1, addresses
    # The advertisements do not alternate: each is present while the last one is checked.
    seen.clear()
    await stage.phone.look(collect, timeout=2)
    await stage.set()
