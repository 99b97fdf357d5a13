"""The Bitchat phones' own implementation of the protocol, against the vectors that were checked with the apps' sources.

It needs no guest: `PYTHONPATH=Tests/EndToEnd:MODULES python3 -m suites.mesh_vectors`."""
from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from phones.mesh import parcels, sync, values
from phones.mesh.media import media_id
from phones.mesh.noise import Handshake, NoiseError, Session
from phones.mesh.packets import ANDROID_LEVEL, IOS_LEVEL, Malformed, Packet, Stream, Type, deflate, padded, unpadded

PROTOCOLS = Path(__file__).parents[2] / "Protocols/BitchatTests/Vectors/bitchat.json"
NOISE = Path(__file__).parents[2] / "Base/NoiseTests/Vectors/noise.json"
LEVELS = (IOS_LEVEL, ANDROID_LEVEL)

Json = dict[str, Any]
raw = bytes.fromhex


def check() -> None:
    vectors = json.loads(PROTOCOLS.read_text())
    people = {name: _identity(keys) for name, keys in vectors["identities"].items()}
    for name, keys in vectors["identities"].items():
        assert (people[name].peer_id.hex(), people[name].fingerprint) == (keys["peer_id"], keys["fingerprint_hex"])
    _padding(vectors)
    _packets(vectors, people)
    _signatures(vectors["compressed_signature_cases"], people)
    _stream(vectors["notification_stream"])
    _fragments(vectors)
    _noise(vectors, people)
    _sync(vectors)
    _inside(vectors, people)
    _files(vectors)
    _courier(vectors["courier"], people)
    _refusals(people["alice"], people["bob"])


def _identity(keys: Json) -> values.Identity:
    return values.Identity(
        X25519PrivateKey.from_private_bytes(raw(keys["noise_private"])),
        Ed25519PrivateKey.from_private_bytes(raw(keys["ed25519_seed"])),
    )


def _refused(read: Any, data: bytes) -> bool:
    try:
        read(data)
    except (Malformed, NoiseError):
        return True
    return False


def _padding(vectors: Json) -> None:
    for case in vectors["padding"]["cases"]:
        assert len(padded(b"\x01" * case["len"])) == case["padded_len"], case
    for case in vectors["padding"]["unpad"]:
        assert unpadded(raw(case["in"])) == raw(case["out"]), case


def _packets(vectors: Json, people: dict[str, values.Identity]) -> None:
    keys = {person.peer_id: person.signing_key for person in people.values()}
    for case in vectors["packets"]:
        wire = raw(case["wire"])
        if "zlib_wrapped" in case["name"]:
            assert _refused(Packet.decode, wire), case["name"]
            continue
        found = Packet.decode(wire)
        expected = Packet(
            case["type"], raw(case["sender"]), case["timestamp"], raw(case["payload"]), case["ttl"],
            raw(case["recipient"]) if case["recipient"] else None, case["version"], tuple(map(raw, case["route"] or [])),
            raw(case["signature"]) if case["signature"] else None, case["is_rsr"], found.deflated,
        )
        assert found == expected and (found.deflated is not None) is case["compressed"], case["name"]
        assert found.preimage(None) == raw(case["signing_bytes"]), case["name"]
        assert found.id.hex() == case["sync_id"], case["name"]
        for level in LEVELS:
            assert (padded(found.encoded(level)) if case["padded"] else found.encoded(level)) == wire, (case["name"], level)
            assert found.preimage(level) == raw(case["signing_bytes"]), case["name"]
            if found.signature:
                assert found.is_signed_by(keys[found.sender], level), case["name"]
                assert not found.is_signed_by(keys[people["carol"].peer_id], level) or found.sender == people["carol"].peer_id
    for case in vectors["packets_invalid"]:
        assert _refused(Packet.decode, raw(case["wire"])), case["name"]


def _signatures(cases: Json, people: dict[str, values.Identity]) -> None:
    """An app compresses again before it checks, so it accepts only payloads that its own encoder produces."""
    for case in cases["cases"]:
        packet, key = Packet.decode(raw(case["wire"])), people[case["signer"]].signing_key
        for level, name in ((IOS_LEVEL, "zlib5"), (ANDROID_LEVEL, "zlib6")):
            assert packet.is_signed_by(key, level) is (name in case["verifies_with"]), (case["name"], name)


def _stream(case: Json) -> None:
    stream, found = Stream(), []
    for chunk in case["chunks"]:
        found += stream.feed(raw(chunk), 0)
    assert [frame.hex() for frame in found] == case["frames"] and stream.is_clear and not stream.lost
    stream = Stream()
    assert stream.feed(raw(case["chunks"][0])[:30], 0) == [] == stream.feed(raw(case["frames"][1])[:5], 0.3)
    assert stream.lost, "what stalls is thrown away"


def _fragments(vectors: Json) -> None:
    for case in vectors["fragments"]:
        wires = [raw(each) for each in case["fragments"]]
        packets = [Packet.decode(wire) for wire in wires]
        parts = [parcels.Fragment.decode(packet.payload) for packet in packets]
        inner = raw(case["inner_wire"])
        assert b"".join(part.slice for part in parts) in (inner, padded(inner)), case["name"]
        whole = b"".join(part.slice for part in parts)
        made = parcels.fragments(Packet.decode(whole), whole, case["chunk"], raw(case["fragment_id"]))
        assert [packet.encoded(IOS_LEVEL) for packet in made] == wires, case["name"]


def _noise(vectors: Json, people: dict[str, values.Identity]) -> None:
    for case in json.loads(NOISE.read_text())["vectors"]:
        if "_XX_" not in case["protocol_name"]:
            continue  # the vectors of couriers are in the other file
        ends = [
            Handshake(
                role == "init", X25519PrivateKey.from_private_bytes(raw(case[f"{role}_static"])),
                prologue=raw(case[f"{role}_prologue"]),
                ephemeral=X25519PrivateKey.from_private_bytes(raw(case[f"{role}_ephemeral"])),
            )
            for role in ("init", "resp")
        ]
        for number, message in enumerate(case["messages"][:3]):
            writer, reader = ends[number % 2], ends[1 - number % 2]
            assert writer.write(raw(message["payload"])).hex() == message["ciphertext"], number
            assert reader.read(raw(message["ciphertext"])).hex() == message["payload"], number
        assert all(end.is_over for end in ends) and {end.hash.hex() for end in ends} == {case["handshake_hash"]}
    case = vectors["noise_bitchat_xx"]
    first, second = (
        Handshake(
            role == "initiator", people[case[role]].noise,
            ephemeral=X25519PrivateKey.from_private_bytes(raw(case[f"{role}_ephemeral_private"])),
        )
        for role in ("initiator", "responder")
    )
    for number, (writer, reader) in enumerate(((first, second), (second, first), (first, second)), start=1):
        assert writer.writes and not reader.writes
        message = writer.write()
        assert message.hex() == case[f"msg{number}"], number
        reader.read(message)
    assert first.hash.hex() == case["handshake_hash"] and first.split() == (raw(case["key_i_to_r"]), raw(case["key_r_to_i"]))
    ends = {"i->r": Session(second), "r->i": Session(first)}
    for message in case["transport"]:
        assert ends[message["dir"]].open(raw(message["wire"])).hex() == message["plaintext"]
        assert _refused(ends[message["dir"]].open, raw(message["wire"])), "what comes twice is refused"
    sender = Session(first)
    for message in [each for each in case["transport"] if each["dir"] == "i->r" and each["nonce"] < 4]:
        assert sender.seal(raw(message["plaintext"])).hex() == message["wire"]


def _sync(vectors: Json) -> None:
    for case in vectors["gcs"]:
        ids = [hashlib.sha256(f"gcs{number}".encode()).digest()[:16] for number in range(case["total_ids"])]
        if isinstance(case["ids"], list):
            ids = [raw(each) for each in case["ids"]]
        decoded = sync.Filter(case["p"], case["m"], raw(case["data"]))
        assert sorted(decoded.values())[: len(case["values"])] == case["values"], case["name"]
        assert len(decoded.values()) == case["value_count"], case["name"]
        for absent, hit in case.get("absent_membership", []):
            assert (raw(absent) in decoded) is hit, case["name"]
        if ids and case["included"] == case["total_ids"]:
            made = sync.Filter.of(ids, case["max_bytes"], case["fpr"])
            assert (made.parameter, made.modulus, made.data) == (case["p"], case["m"], raw(case["data"])), case["name"]
            assert all(each in made for each in ids), case["name"]
    for case in vectors["request_sync"]:
        if "payload" in case:
            assert sync.SyncRequest.decode(raw(case["payload"])).encoded() == raw(case["payload"]), case["name"]


def _inside(vectors: Json, people: dict[str, values.Identity]) -> None:
    alice, bob, case = people["alice"], people["bob"], vectors["noise_payloads"]
    message_id, content = values.read_private_message(raw(case["private_message"])[1:])
    assert values.private_message(message_id, content).hex() == case["private_message"] and content == "hi bob"
    assert (bytes([values.Inside.DELIVERED]) + message_id.encode()).hex() == case["delivered"]
    state = values.PeerState.decode(raw(case["authenticated_peer_state"])[1:])
    assert state.encoded().hex() == case["authenticated_peer_state"] and state.signing_key == alice.signing_key
    asked = values.once(values.read_tlvs(raw(case["verify_challenge"])[1:]))
    assert values.challenge(bob.noise_key, asked[2]).hex() == case["verify_challenge"]
    assert values.response(raw(case["verify_challenge"])[1:], bob).hex() == case["verify_response"]
    assert values.is_proven(raw(case["verify_response"])[1:], bob.noise_key, asked[2], bob.signing_key)
    assert not values.is_proven(raw(case["verify_response"])[1:], bob.noise_key, asked[2], alice.signing_key)
    assert _refused(values.read_private_message, raw(case["private_message"])[1:] + b"\x02\x00"), "an unknown field"
    assert values.read_private_message(raw(case["favorite"])[1:])[1].startswith(values.FAVOURITE)
    shown = vectors["verification_qr"]
    code = values.Code.parse(shown["url"], shown["ts"] + 299)
    assert code.canonical.hex() == shown["canonical"] and code.url(alice.signing) == shown["url"]
    assert _refused(lambda data: values.Code.parse(data.decode(), shown["ts"] + 301), shown["url"].encode())
    assert _refused(lambda data: values.Code.parse(data.decode(), shown["ts"]), shown["url"].replace("alice", "alicf").encode())
    for packet in vectors["packets"]:
        if packet["name"].startswith("announce"):
            found = values.Announce.decode(raw(packet["payload"]))
            if "b5" not in packet["name"]:
                assert found.encoded(neighbours_last="android" in packet["name"]).hex() == packet["payload"], packet["name"]


def _files(vectors: Json) -> None:
    case = vectors["files"][0]
    # The vector's content is not a sound; only the fields are tested.
    made = parcels.File(case["file_name"], case["mime"], raw(case["content"]))
    assert made.encoded().hex() == case["tlv"] and _refused(parcels.File.decode, raw(case["tlv"]))
    file = parcels.File("a.bin", "application/octet-stream", b"\x01\x02")
    assert parcels.File.decode(file.encoded()) == file
    assert _refused(parcels.File.decode, raw(vectors["files"][1]["tlv"])), "Android refuses the old form"
    golden = next(each for each in vectors["third_party_golden"] if "private media stable id" in each["what"])
    sender, recipient = raw("0011223344556677"), raw("8899aabbccddeeff")
    name = "img_20260725_105708_1CC2760D-76AA-40C3-8013-C7FAA6C2EF99.jpg"
    assert media_id(sender, recipient, name) == golden["text"] != media_id(recipient, sender, name)
    assert media_id(sender, recipient, "voice_0123456789abcdef.m4a") and media_id(sender, recipient, "photo.jpg") is None


def _courier(case: Json, people: dict[str, values.Identity]) -> None:
    alice, bob = people["alice"], people["bob"]
    ephemeral = X25519PrivateKey.from_private_bytes(raw(case["ephemeral_private"]))
    sealed = parcels.seal_for(bob.noise_key, alice.noise, raw(case["plaintext"]), ephemeral)
    assert sealed.hex() == case["noise_x_message"]
    assert parcels.open_sealed(sealed, bob.noise) == (alice.noise_key, raw(case["plaintext"]))
    assert parcels.courier_tag(bob.noise_key, case["epoch_day"]).hex() == case["recipient_tag"]
    envelope = parcels.Envelope.decode(raw(case["envelope"]))
    assert envelope.encoded().hex() == case["envelope"] and envelope.sealed == sealed and envelope.copies == case["copies"]
    assert Type.COURIER == 4


def _refusals(alice: values.Identity, bob: values.Identity) -> None:
    """Malformed values for which the vectors have no case."""
    line = Packet(Type.MESSAGE, alice.peer_id, 1, b"hello").encoded(IOS_LEVEL)
    assert Packet.decode(padded(line)) == Packet.decode(line) and _refused(Packet.decode, line + b"\0\0")
    asked, body = bytes(range(16)), values.response(values.challenge(bob.noise_key, bytes(range(16)))[1:], bob)[1:]
    assert values.is_proven(body, bob.noise_key, asked, bob.signing_key)
    assert not values.is_proven(body, bob.noise_key, asked[::-1], bob.signing_key)
    assert not values.is_proven(body, alice.noise_key, asked, bob.signing_key)
    # 90 of 100 bytes are distinct: too many to compress, although it would save bytes.
    assert deflate(bytes(range(90)) + bytes(10), IOS_LEVEL) is None and deflate(bytes(range(80)) * 3, IOS_LEVEL)
    assert deflate(bytes(random.Random(1).choices(range(89), k=100)), IOS_LEVEL) is None, "it has to be shorter"
    for parts in ((1, 1), (2, 1), (0, 0), (0, 10_001)):
        assert _refused(parcels.Fragment.decode, parcels.Fragment(bytes(8), *parts, 2, b"x").encoded()), parts
    for mime, content in (("text/html", b"<"), ("image/png", b"GIF89a"), ("application/pdf", b"")):
        assert _refused(parcels.File.decode, parcels.File("a", mime, content).encoded()), mime
    short = parcels.File("a", "application/octet-stream", b"12").encoded().replace(b"\0\0\0\2", b"\0\0\0\3", 1)
    assert _refused(parcels.File.decode, short), "a size that is not the content's"
    # An ID whose hash is 0 in the filter counts as 1.
    ids = (number.to_bytes(16, "big") for number in range(10_000))
    zero = next(each for each in ids if int.from_bytes(hashlib.sha256(each).digest()[:8], "big") % 128 == 0)
    assert sync.Filter.of([zero]).values() == {1} and zero in sync.Filter.of([zero])
    for parameter, modulus in ((0, 1), (33, 1), (7, 0)):
        assert _refused(sync.SyncRequest.decode, sync.SyncRequest(sync.Filter(parameter, modulus, b"")).encoded())


if __name__ == "__main__":
    check()
    print("The Bitchat phones speak the protocol of the vectors.")
