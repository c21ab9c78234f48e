"""A provider's answers as JSON objects.

Knows nothing of what they mean.
"""

from typing import Any

import msgspec

from hutong.foundation.errors import ProtocolError


def decoded_object(data: bytes, what: str) -> dict[str, Any]:
    """Raises ProtocolError for what is no JSON object."""
    try:
        told = msgspec.json.decode(data)
    # RecursionError: arrays nested thousands deep.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError(f"{what} that is no JSON") from None
    if not isinstance(told, dict):
        raise ProtocolError(f"{what} that is no JSON object")
    return told
