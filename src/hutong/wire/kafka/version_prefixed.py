"""Messages with their version as 16 bits in front: the records of Kafka's internal topics, and the consumer protocol.

Knows nothing of what a table means, nor whether a reader may take a newer version for the newest one it knows.
"""

import struct
from functools import cache
from typing import Any, Final, TypeVar

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.codec.codecs import Decoder, decoder, encoder
from hutong.wire.kafka.schema import message_info

VERSION: Final = struct.Struct(">h")

T = TypeVar("T")

_encoder: Final = cache(encoder)  # table and version


def encode(message: Any, version: int) -> bytes:
    out: list[Buffer] = [VERSION.pack(version)]
    _encoder(type(message), version)(message, out)  # type: ignore[arg-type]  # mypy: no class is hashable
    return b"".join(out)


def version_of(data: Buffer) -> int:
    """Raises ProtocolError."""
    if len(data) < VERSION.size:
        raise ProtocolError("a record has no version")
    version: int = VERSION.unpack_from(data)[0]
    return version


def decode(table: type[T], data: Buffer, version: int | None = None) -> T:
    """Read the rest as of `version`, by default the one in front. Raises ProtocolError."""
    read_as = version_of(data) if version is None else version
    decoded: T = _decoder(table, read_as)(data, VERSION.size)  # type: ignore[arg-type]
    return decoded


@cache
def _decoder(table: type[Any], version: int) -> Decoder:
    if version not in message_info(table).versions:
        raise ProtocolError(f"{table.__name__} is not known in version {version}")
    return decoder(table, version)
