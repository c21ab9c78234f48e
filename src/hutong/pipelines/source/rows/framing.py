"""The five bytes by which Confluent's serializers name a schema in their registry."""

MAGIC = b"\0"
FRAME_BYTES = 5
"""A zero byte and the id of a schema, big-endian (Confluent's wire format)."""
IDS_MAX = 1_000
"""Of one task: random bytes would else make a request each."""


def unframed(content: bytes) -> tuple[int, bytes]:
    """The id and what follows it. Raises ValueError."""
    if content[:1] != MAGIC or len(content) < FRAME_BYTES:
        raise ValueError("it does not begin with a zero byte and the number of a schema")
    return int.from_bytes(content[1:FRAME_BYTES], "big"), content[FRAME_BYTES:]
