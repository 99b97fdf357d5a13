"""Public and private files, and the receipts that the iOS app sends for private ones (docs/facts/bitchat.md section 10)."""
from __future__ import annotations

import hashlib
import re
from abc import abstractmethod

from phones.mesh.air import Received
from phones.mesh.packets import Malformed, Packet, Type
from phones.mesh.parcels import File
from phones.mesh.private import PrivateTalk
from phones.mesh.values import Capability, Inside

_UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
#: The apps' names of pictures and voice notes; receipts exist for those alone.
_STABLE = re.compile(rf"(img_(.*_)?{_UUID}\.(jpg|jpeg)|voice_((.*_)?{_UUID}|[0-9a-fA-F]{{16}})\.m4a)")


def media_id(sender: bytes, recipient: bytes, name: str) -> str | None:
    """The ID by which both ends know a private picture or voice note; None for a file of another name."""
    if not _STABLE.fullmatch(name):
        return None
    fields = [each.encode() for each in (sender.hex(), recipient.hex(), name)]
    text = b"bitchat-private-media-message-v1" + b"".join(len(each).to_bytes(4, "big") + each for each in fields)
    return "media-" + hashlib.sha256(text).digest()[:16].hex()


class Media(PrivateTalk):
    """The part of `App` for files."""

    everybody: bytes | None
    files: list[Received]

    @abstractmethod
    def keep(self, packet: Packet) -> None: ...

    def send_file(self, file: File, peer: bytes | None = None) -> str | None:
        """Sends a public file, or a private one to a peer that has announced to accept them; returns the ID in its receipt, if any."""
        if peer is None:
            packet = self.signed(self.packet(Type.FILE, file.encoded(), self.everybody, version=2))
            self.keep(packet)
            self.send(packet)
            return None
        proven = self.peers[peer].capabilities
        assert proven is not None and Capability.PRIVATE_MEDIA in proven, "the peer does not take private files"
        self.tell_inside(peer, bytes([Inside.FILE]) + file.encoded())
        return media_id(self.id, peer, file.name) if self._are_acknowledged(peer) else None

    def _are_acknowledged(self, peer: bytes) -> bool:
        both = {Capability.PRIVATE_MEDIA, Capability.PRIVATE_MEDIA_RECEIPTS}
        return both <= self.capabilities and both <= (self.peers[peer].capabilities or frozenset())

    def take_file(self, sender: bytes, payload: bytes, *, private: bool) -> None:
        file = File.decode(payload)
        if file.name != file.name.rpartition("/")[2] or not file.name:
            raise Malformed(f"a file with the name {file.name!r}")
        name = media_id(sender, self.id, file.name) if private and self._are_acknowledged(sender) else None
        if name is not None:
            self.tell_inside(sender, bytes([Inside.DELIVERED]) + name.encode())
        found = Received(sender, file.name, file.mime, file.content, private)
        if found in self.files:
            # With receipts, the sender may have missed one; without, there is no reason to send the file twice.
            return self._refuse("file twice" if name is None else "private message twice")
        self.files.append(found)
