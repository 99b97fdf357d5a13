"""An app's messages inside Noise: private messages with their receipts, favourites, verification, files."""
from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable

from phones.mesh import values
from phones.mesh.air import Heard, Peer
from phones.mesh.noise import SIZES, Handshake, NoiseError, Session
from phones.mesh.packets import Malformed, Packet, Type
from phones.mesh.values import Identity, Inside, PeerState


class PrivateTalk(ABC):
    """The part of `App` for communication with one peer."""

    level: int
    capabilities: frozenset[int]
    signs_noise: bool
    identity: Identity
    id: bytes
    nickname: str
    peers: dict[bytes, Peer]
    private: list[Heard]
    receipts: defaultdict[str, list[str]]
    refused: Counter[str]
    #: The favourites of its user.
    favourites: frozenset[bytes]
    _strangers: dict[bytes, Packet]

    #: Timeout of a handshake in seconds.
    HANDSHAKE_FOR = 10.0

    @abstractmethod
    def now(self) -> int: ...

    @abstractmethod
    def later(self, seconds: float, work: Callable[[], None]) -> None: ...

    @abstractmethod
    def note(self, fault: str) -> None: ...

    @abstractmethod
    def packet(self, kind: Type, payload: bytes, recipient: bytes | None = None, **more: int) -> Packet: ...

    @abstractmethod
    def signed(self, packet: Packet) -> Packet: ...

    @abstractmethod
    def send(self, packet: Packet) -> None: ...

    @abstractmethod
    def take_file(self, sender: bytes, payload: bytes, *, private: bool) -> None: ...

    def _refuse(self, why: str) -> None:
        self.refused[why] += 1

    # Sending.

    def tell(self, peer: bytes, content: str) -> str:
        """Sends a private message; returns its ID."""
        assert len(content.encode()) <= 255, "the apps cannot write more"
        message_id = str(uuid.uuid4()).upper()
        self.tell_inside(peer, values.private_message(message_id, content))
        return message_id

    def read(self, heard: Heard) -> None:
        """Displays a private message, and sends the read receipt."""
        assert heard.message_id is not None
        self.tell_inside(heard.sender, bytes([Inside.READ]) + heard.message_id.encode())

    def favour(self, peer: bytes, likes: bool = True) -> str:
        self.favourites = self.favourites | {peer} if likes else self.favourites - {peer}
        return self.tell(peer, f"{values.FAVOURITE if likes else values.NO_FAVOURITE}:npub1{'q' * 58}")

    def verify(self, url: str) -> bytes:
        """Reads a verification code and sends the challenge; returns the peer's ID."""
        code = values.Code.parse(url, self.now() / 1000)
        peer = self.peers[values.peer_id(code.noise_key)]
        if (code.noise_key, code.signing_key) != (peer.announce.noise_key, peer.announce.signing_key):
            raise Malformed("a code with other keys than the peer's")
        peer.challenged = uuid.uuid4().bytes
        self.tell_inside(peer.id, values.challenge(code.noise_key, peer.challenged))
        return peer.id

    def code(self) -> str:
        """The text of its own QR code."""
        nonce = values.nonce_text(uuid.uuid4().bytes)
        code = values.Code(self.identity.noise_key, self.identity.signing_key, self.nickname, self.now() // 1000, nonce)
        return code.url(self.identity.signing)

    def tell_inside(self, peer_id: bytes, plaintext: bytes) -> None:
        """Sends through Noise, as soon as there is a session."""
        peer = self.peers[peer_id]
        if peer.session is None:
            peer.waiting.append(plaintext)
            self._begin(peer)
            return
        version = 2 if plaintext[0] == Inside.FILE else 1
        self._send_noise(Type.ENCRYPTED, peer.session.seal(plaintext), peer_id, version=version)

    def _send_noise(self, kind: Type, payload: bytes, peer: bytes, **more: int) -> None:
        packet = self.packet(kind, payload, peer, **more)
        self.send(self.signed(packet) if self.signs_noise else packet)

    # Receiving.

    def _begin(self, peer: Peer) -> None:
        if peer.handshake is None:
            work = peer.handshake = Handshake(True, self.identity.noise)
            self._send_noise(Type.HANDSHAKE, work.write(), peer.id)
            self.later(self.HANDSHAKE_FOR, lambda: self._begin_again(peer, work))

    def _begin_again(self, peer: Peer, work: Handshake) -> None:
        if peer.handshake is work:
            self._refuse("handshake without an answer")
            peer.handshake = None
            if peer.waiting:
                self._begin(peer)

    def _take_handshake(self, packet: Packet) -> bool:
        peer = self.peers.get(packet.sender)
        if peer is None:
            # Its announce may be under way: an iPhone begins as soon as it has this phone's.
            self._strangers[packet.sender] = packet
            return True
        if packet.signature is not None and not packet.is_signed_by(peer.announce.signing_key, self.level):
            self._refuse("handshake with a wrong signature")
            return False
        work, message = peer.handshake, packet.payload
        if len(message) == SIZES[0]:
            if work is not None and work.initiator and self.id < packet.sender:
                self._refuse("handshake of both, and this ID is the smaller")
                return True
            work = peer.handshake = Handshake(False, self.identity.noise)
        if work is None or work.is_over or work.writes or len(message) != SIZES[work.step]:
            self._refuse("handshake message out of order")
            return False
        try:
            work.read(message)
        except NoiseError as wrong:
            self.note(f"handshake: {wrong}")
            peer.handshake = None
            return False
        if not work.is_over:
            self._send_noise(Type.HANDSHAKE, work.write(), peer.id)
        if work.remote is not None and work.remote != peer.announce.noise_key:
            self.note("a handshake with another key than the announce's")
            peer.handshake = None
            return False
        if work.is_over:
            self._established(peer, work)
        return True

    def _established(self, peer: Peer, work: Handshake) -> None:
        peer.session, peer.handshake, peer.capabilities = Session(work), None, None
        self.tell_inside(peer.id, PeerState(self.capabilities, self.identity.signing_key).encoded())
        early, peer.early = peer.early, []
        for packet in early:
            self._take_encrypted(packet, is_early=True)
        waiting, peer.waiting = peer.waiting, []
        for plaintext in waiting:
            self.tell_inside(peer.id, plaintext)

    def _take_encrypted(self, packet: Packet, is_early: bool = False) -> bool:
        """Handles an encrypted packet. is_early: it arrived before the session, and may belong to one from before a restart of this
        phone."""
        peer = self.peers.get(packet.sender)
        if peer is None or (peer.session is None and (peer.handshake is None or len(peer.early) == 4)):
            self._refuse("ciphertext without a session")
            if peer is not None:
                self._begin(peer)
            return False
        if peer.session is None or (peer.handshake is not None and not peer.handshake.is_over and not peer.handshake.initiator):
            peer.early.append(packet)
            return True
        try:
            plaintext = peer.session.open(packet.payload)
        except NoiseError as wrong:
            if is_early:
                self._refuse("ciphertext of a session of before")
            else:
                self.note(f"ciphertext: {wrong}")
            return False
        if not plaintext:
            raise Malformed("an empty private payload")
        self._take_inside(peer, packet, plaintext[0], plaintext[1:])
        return True

    def _take_inside(self, peer: Peer, packet: Packet, kind: int, body: bytes) -> None:
        match kind:
            case Inside.MESSAGE:
                self.take_private(peer, packet.timestamp, *values.read_private_message(body))
            case Inside.DELIVERED | Inside.READ:
                self.receipts[values.text(body)].append("delivered" if kind == Inside.DELIVERED else "read")
            case Inside.STATE:
                state = PeerState.decode(body)
                if state.signing_key != peer.announce.signing_key:
                    raise Malformed("a peer state with another signing key than the announce's")
                is_first, peer.capabilities = peer.capabilities is None, state.capabilities
                if is_first:
                    self.tell_inside(peer.id, PeerState(self.capabilities, self.identity.signing_key).encoded())
            case Inside.CHALLENGE:
                self.tell_inside(peer.id, values.response(body, self.identity))
            case Inside.RESPONSE:
                proven = peer.challenged is not None and values.is_proven(
                    body, peer.announce.noise_key, peer.challenged, peer.announce.signing_key
                )
                if not proven:
                    raise Malformed("a proof that is none")
                peer.is_verified, peer.challenged = True, None
            case Inside.FILE:
                self.take_file(peer.id, body, private=True)
            case _:
                raise Malformed(f"a private payload of type {kind:02x}")

    def take_private(self, peer: Peer, when: int, message_id: str, content: str) -> None:
        """Displays a private message once, and acknowledges it each time that it arrives."""
        self.tell_inside(peer.id, bytes([Inside.DELIVERED]) + message_id.encode())
        if any(heard.message_id == message_id for heard in self.private):
            return self._refuse("private message twice")
        if content.startswith((values.FAVOURITE, values.NO_FAVOURITE)):
            peer.likes_us = content.startswith(values.FAVOURITE)
            return
        self.private.append(Heard(peer.id, peer.announce.nickname, content, when, message_id))
