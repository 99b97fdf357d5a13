#!/usr/bin/python3
"""A bot of the mesh: answers `!time` and `!help`. It never answers old messages.

    meshbot.py                  needs python3-earshot, the group earshot, and Enabled=yes in [Mesh] of earshot.conf

Messages are old if they were received before the bot began, or were written more than two minutes ago: the mesh also
carries messages of people who were out of range for hours. The bot does not answer itself or another bot's answer.
"""

import asyncio
import sys
import time

import earshot

OLDEST = 120  # seconds
PAUSE = 2.0  # seconds between two answers: neighbours accept few public messages from one peer


def answer(message: earshot.MeshMessage, now: float) -> str | None:
    """Returns the answer to a message; None for none."""
    if message.is_own or now - message.time / 1000 > OLDEST:
        return None
    match message.text.strip().lower():
        case "!time":
            return time.strftime("It is %H:%M.", time.localtime(now))
        case "!help":
            return "I know !time and !help."
    return None


async def main() -> None:
    """Answers messages until it is interrupted."""
    async with earshot.connect() as service:
        async for message in service.mesh.messages():
            text = answer(message, time.time())
            if text is None:
                continue
            try:
                if message.is_private:
                    await service.mesh.tell(message.sender, text)
                else:
                    await service.mesh.say(text)
            except earshot.EarshotError as error:
                print(f"{error.code}: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    asyncio.run(main())
