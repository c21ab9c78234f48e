"""The type that every codec reads and writes: plain byte buffers, never streams."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""A contiguous run of bytes. Memoryviews have format `B` and one dimension, so `len` is the byte count."""
