"""Record batches to decode, made by the wire's own builder, and hypothesis strategies for what is in them."""

import struct

from crc32c import crc32c
from hypothesis import strategies as st

from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import Record, build_batch

payloads = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=4)
timestamps = st.integers(min_value=-1, max_value=2**44)
records = st.builds(Record, st.just(0), timestamps, payloads, payloads, headers)
batches = st.lists(records, min_size=1, max_size=30)


def record_set(groups: list[list[Record]], base_offset: int = 0, codec: Compression = Compression.NONE) -> bytes:
    """The groups as batches one after another, offsets without gaps from `base_offset`."""
    content = b""
    for group in groups:
        content += build_batch(group, base_offset=base_offset, compression=codec)
        base_offset += len(group)
    return content


def with_crc(batch: bytes) -> bytes:
    """The batch with the checksum that its bytes ask for."""
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def with_attributes(batch: bytes, attributes: int) -> bytes:
    return with_crc(batch[:21] + struct.pack(">h", attributes) + batch[23:])
