"""Metadata as headers and back.

Strategy: names are the same, so `auth-token` and `request-id` are what they are elsewhere; `authorization: Bearer
TOKEN`, which is what others' clients send, is an `auth-token` too. What belongs to gRPC itself is left out, and so is
what is not text.

Knows no server.
"""

import re
from collections.abc import Iterable
from typing import Final

from hutong.rpc.call import AUTH_TOKEN
from hutong.rpc.options import HeaderPairs

AUTHORIZATION: Final = "authorization"
_BEARER: Final = "bearer "
_OWN: Final = frozenset({"user-agent", "content-type", "te", "accept-encoding"})
_NAME: Final = re.compile(r"[0-9a-z_.-]+")
_TEXT: Final = re.compile(r"[\x20-\x7e]*")


def headers_of(metadata: Iterable[tuple[str, str | bytes]]) -> HeaderPairs:
    """The headers of a call."""
    pairs = [
        (name, value)
        for name, value in metadata
        if isinstance(value, str) and not name.startswith((":", "grpc-")) and name not in _OWN
    ]
    if not any(name == AUTH_TOKEN for name, _ in pairs):
        tokens = [value for name, value in pairs if name == AUTHORIZATION and value.lower().startswith(_BEARER)]
        pairs.extend((AUTH_TOKEN, token[len(_BEARER) :].strip()) for token in tokens)
    return tuple(pairs)


def metadata_of(headers: HeaderPairs) -> tuple[tuple[str, str], ...]:
    """Return the headers of an answer that gRPC can carry."""
    lowered = [(name.lower(), value) for name, value in headers]
    return tuple(
        (name, value)
        for name, value in lowered
        if _NAME.fullmatch(name)
        and not name.endswith("-bin")
        and not name.startswith("grpc-")
        and _TEXT.fullmatch(value)
    )
