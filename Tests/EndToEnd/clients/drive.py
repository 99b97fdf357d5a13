"""Drives a client that has no socket of its own: a line of JSON in is a command, a line of JSON out is what happened.

    drive.py python-bitchat-client|bitchat-cli NICKNAME

Commands: `{"say": text}`, `{"tell": [peer, text]}`, `{"file": path}`. Events: `{"peer": id, "nickname": name}`,
`{"heard": text, "sender": id, "private": bool}`, `{"status": code, "detail": text}`, `{"done": command, "ok": bool}`,
`{"self": id}`."""
from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

_writing = threading.Lock()


def tell(**event: Any) -> None:
    with _writing:
        print(json.dumps(event), flush=True)


def drive_python_bitchat_client(nickname: str) -> None:
    from python_bitchat_client.client import BleBitChatClient

    client = BleBitChatClient()
    client.set_handle(nickname)
    client.set_message_handler(lambda m: tell(heard=m.text, sender=m.sender, private=m.is_private))
    client.set_status_handler(lambda status: tell(status=status.code, detail=status.detail))
    tell(self=client._peer_id_hex)
    client.start()
    known: set[str] = set()

    def watch() -> None:
        for peer in client.list_peers():
            if peer.peer_id not in known:
                known.add(peer.peer_id)
                tell(peer=peer.peer_id, nickname=peer.nickname)
        timer = threading.Timer(0.5, watch)
        timer.daemon = True
        timer.start()

    watch()
    for line in sys.stdin:
        command = json.loads(line)
        if "say" in command:
            tell(done="say", ok=client.send_message(command["say"]))
        elif "tell" in command:
            tell(done="tell", ok=client.send_direct_message(*command["tell"]))
    client.stop()


async def drive_bitchat_cli(nickname: str) -> None:
    from bitchat_cli.ble_service import BLEService
    from bitchat_cli.chat_state import ChatState

    class Told(ChatState):
        """The client's list of displayed messages, converted to events."""

        def add_message(self, message: Any) -> None:
            super().add_message(message)
            tell(heard=message.content, sender=message.sender, private=False)

        def set_peer(self, peer_id: str, name: str) -> bool:
            is_new = super().set_peer(peer_id, name)
            if is_new:
                tell(peer=peer_id, nickname=name)
            return is_new

        def add_connection(self, address: str) -> None:
            super().add_connection(address)
            tell(status="connected", detail=address)

        def remove_connection(self, address: str) -> None:
            super().remove_connection(address)
            tell(status="disconnected", detail=address)

    state = Told(nickname, os.urandom(8))
    service = BLEService(state, lambda: None)
    # The client's own output must not mix with the events.
    service._emit = lambda text: tell(status="printed", detail=text)
    service._open_file = lambda path: None
    tell(self=state.my_peer_id_hex)
    running = asyncio.ensure_future(service.run())
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        if "say" in command:
            await service.send_public_message(command["say"])
            tell(done="say", ok=bool(service.clients))
        elif "file" in command:
            await service.send_file(command["file"])
            tell(done="file", ok=bool(service.clients))
    running.cancel()
    await service.stop()


if __name__ == "__main__":
    if sys.argv[1] == "bitchat-cli":
        asyncio.run(drive_bitchat_cli(sys.argv[2]))
    else:
        drive_python_bitchat_client(sys.argv[2])
