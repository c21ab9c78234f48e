"""The failure of a service as a reply: with debug information, and with Vert.x's own codec for it.

    i32 code, u8 1 where there is a text, [i32 length and text], i32 length and a JSON object

Knows no services.
"""

import json
import struct
from typing import Any, Final

from hutong.bus.errors import FailureType, ReplyError
from hutong.foundation.errors import ProtocolError

_HEAD: Final = struct.Struct(">iB")
_LENGTH: Final = struct.Struct(">i")


class ServiceFailure(ReplyError):
    """A service's failure as the bus carries it: RECIPIENT_FAILURE with a code, a message and debug information."""

    def __init__(self, code: int, message: str, debug_info: dict[str, Any] | None = None) -> None:
        super().__init__(FailureType.RECIPIENT_FAILURE, code, message)
        self.debug_info = debug_info


class ServiceFailureCodec:
    """Lets a ServiceFailure be a reply; within this process as it is, since it does not change."""

    name = "ServiceException"  # as Vert.x's proxies have it

    def encode(self, body: ServiceFailure) -> bytes:
        text = _counted(body.message.encode()) if body.message else b""
        # ServiceException of Vert.x has no null here: an empty object says the same.
        debug_info = json.dumps(body.debug_info or {}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return _HEAD.pack(body.failure_code, bool(text)) + text + _counted(debug_info.encode())

    def decode(self, data: bytes) -> ServiceFailure:
        """Raises ProtocolError."""
        try:
            code, has_text = _HEAD.unpack_from(data)
            text, at = _uncounted(data, _HEAD.size) if has_text else ("", _HEAD.size)
            found, at = _uncounted(data, at)
            debug_info = json.loads(found)
            if at != len(data) or type(debug_info) is not dict:
                raise ValueError("debug information is a JSON object, and the last that there is")
        # RecursionError is JSON that is nested too deeply.
        except (ValueError, struct.error, RecursionError) as error:
            raise ProtocolError(f"this is not what the codec {self.name!r} writes: {error}") from None
        return ServiceFailure(code, text, debug_info or None)

    def transform(self, body: ServiceFailure) -> ServiceFailure:
        return body


def _counted(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _uncounted(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _LENGTH.unpack_from(data, at)
    end = at + _LENGTH.size + size
    if size < 0 or end > len(data):
        raise ValueError(f"{size} bytes announced with {len(data) - at - _LENGTH.size} left")
    return data[end - size : end].decode(), end
