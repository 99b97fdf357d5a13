"""A stand-in for Apple's module of this name, which bitchat4agents imports on Linux as well, where it has no use for it."""


def dispatch_queue_create(label: bytes, attributes: object) -> None:
    return None
