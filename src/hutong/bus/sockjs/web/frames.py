"""SockJS's frames: `o`, `h`, `a[...]` and `c[code,"reason"]`, and what clients send.

Strategy: some characters do not survive every browser and proxy, so they leave as escapes (SockJS 0.3.4, "JSON Unicode
encoding"); Python's text has no surrogates for characters beyond U+FFFF, so these are written as the pair they are in
JavaScript. Knows nothing of sessions or transports.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

import msgspec

from hutong.wire.buffer import Buffer

OPEN: Final = "o"
HEARTBEAT: Final = "h"
_FRAGILE: Final = re.compile(
    "[\x7f\ud800-\udfff\u200c-\u200f\u2028-\u202f\u2060-\u206f\ufff0-\uffff\U00010000-\U0010ffff]"
)
_REMEMBERED_MAX: Final = 8
_decode: Final = msgspec.json.Decoder(list[str] | str).decode


def encode_text(text: str) -> str:
    """The text as a JSON string that passes everywhere."""
    return _FRAGILE.sub(_escape, encode_basestring(text))


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found.group())[1:-1]


def encode_messages(messages: Iterable[bytes]) -> str:
    """One `a` frame of messages in UTF-8."""
    return f"a[{','.join([_encode_message(message) for message in messages])}]"


@lru_cache(maxsize=_REMEMBERED_MAX)
def _encode_message(message: bytes) -> str:
    """One that is published goes to many clients, as the very same bytes: their hash is counted once."""
    return encode_text(message.decode())


def encode_close(code: int, reason: str) -> str:
    return f"c[{code},{encode_text(reason)}]"


def decode_messages(data: Buffer | str) -> list[str] | None:
    """The messages of a client, which sends a JSON array of strings or one string; None for anything else.

    A lone surrogate is let through: the one message that has it is then refused by who reads it, not all of them here.
    """
    try:
        texts: Any = _decode(data)
    except (msgspec.DecodeError, UnicodeError):
        texts = _decode_leniently(data)
    if isinstance(texts, str):
        return [texts]
    return texts if isinstance(texts, list) and all(isinstance(text, str) for text in texts) else None


def _decode_leniently(data: Buffer | str) -> Any:
    try:
        return json.loads(data if isinstance(data, str) else bytes(data).decode())
    except (ValueError, RecursionError):
        return None
