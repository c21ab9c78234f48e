"""Handles by which producers recall delayed messages: base64 for URLs of `v1 TOPIC BROKER TIME ID`.

A client gets one as text, and gives it back. ProtocolError is the only error that leaves the decoder.
"""

import binascii
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

from hutong.foundation.errors import ProtocolError

HANDLE_CHARACTERS_MAX: Final = 8_192
_VERSION: Final = "v1"
_PARTS: Final = 5
_ALPHABET: Final = b"-_"


class RecallHandle(NamedTuple):
    """A delayed message. `due_ms` is its time, `message_id` the unique key that its producer gave it."""

    topic: str
    broker: str
    due_ms: int
    message_id: str


def encode_handle(handle: RecallHandle) -> str | None:
    """The text of a handle; None where a part would break it, or makes it too long."""
    topic, broker, due_ms, message_id = handle
    parts = (_VERSION, topic, broker, str(due_ms), message_id)
    text = " ".join(parts)
    packed = b64encode(text.encode(), _ALPHABET).decode()
    is_whole = all(parts) and text.count(" ") == _PARTS - 1 and len(packed) <= HANDLE_CHARACTERS_MAX
    return packed if is_whole else None


def decode_handle(text: str) -> RecallHandle:
    """The handle in a text. Raises ProtocolError."""
    if len(text) > HANDLE_CHARACTERS_MAX or not text.isascii():
        raise ProtocolError("recall handle is invalid")
    try:
        # Java's decoder takes it without its padding, too.
        data = b64decode(text.encode() + b"=" * (-len(text) % 4), _ALPHABET, validate=True)
        parts = data.decode().split(" ")
    except (binascii.Error, UnicodeDecodeError):
        raise ProtocolError("recall handle is invalid") from None
    # More parts than these are left out, as in RocketMQ.
    if parts[0] != _VERSION or len(parts) < _PARTS or not all(parts[:_PARTS]):
        raise ProtocolError("recall handle is invalid")
    _, topic, broker, due, message_id = parts[:_PARTS]
    # A time that is no number has passed, as in RocketMQ.
    due_ms = int(due) if due.isascii() and due.isdigit() and len(due) <= 18 else -1
    return RecallHandle(topic, broker, due_ms, message_id)
