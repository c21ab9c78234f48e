"""Bodies of messages without their compression.

A client compresses a body of over 4 KiB by itself. The log has it plain, so that Kafka's clients can read it; its
batches may be compressed as a whole.
"""

import zlib

from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.compression import Compression, decompress
from hutong.wire.rocketmq.codes import COMPRESSION_MASK, LZ4, ZLIB, ZSTD, ResponseCode


def plain_body(sys_flag: int, body: Buffer, bytes_max: int) -> Buffer:
    """The body without its compression. Raises RocketRefused for what cannot be unpacked, or is over `bytes_max`."""
    algorithm = sys_flag & COMPRESSION_MASK
    try:
        # 4.9.3 and older set no algorithm, and know zlib alone.
        if algorithm in (0, ZLIB):
            return _inflated(body, bytes_max)
        if algorithm in (LZ4, ZSTD):
            return decompress(Compression.LZ4 if algorithm == LZ4 else Compression.ZSTD, body, bytes_max)
    # Refused, and the connection goes on: the frame around it is sound.
    except (zlib.error, ProtocolError) as error:
        raise RocketRefused(ResponseCode.MESSAGE_ILLEGAL, f"The compressed body is damaged: {error}") from None
    except LimitExceeded:
        raise _too_large(bytes_max) from None
    raise RocketRefused(ResponseCode.MESSAGE_ILLEGAL, f"There is no compression {algorithm >> 8}.")


def _inflated(body: Buffer, bytes_max: int) -> bytes:
    unpacking = zlib.decompressobj()
    plain = unpacking.decompress(body, bytes_max + 1)
    # More output is held back by the bound, which a hostile body of 4 KiB could exceed a thousandfold.
    if len(plain) > bytes_max:
        raise _too_large(bytes_max)
    if not unpacking.eof:
        raise zlib.error("it is cut off")
    return plain


def _too_large(bytes_max: int) -> RocketRefused:
    return RocketRefused(ResponseCode.MESSAGE_ILLEGAL, f"The body unpacks to more than {bytes_max} bytes.")
