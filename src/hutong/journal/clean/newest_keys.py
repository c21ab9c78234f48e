"""The newest offset of each key, in memory of a fixed size.

Strategy: an open-addressed table in pages of its own, three words for a key: a 128-bit hash of log and key, and the
offset. As Kafka's, it keeps no keys, so its size does not depend on theirs; what does not fit is left to another pass.

Two keys with one hash would pass for one, and the older record of them would be lost. BLAKE2b is a cryptographic hash
(RFC 7693): among a billion keys that happens by chance with a probability of 1e-21, and nobody knows how to make it
happen in fewer than 2^64 attempts.

Knows nothing of batches.
"""

import math
import mmap
from hashlib import blake2b
from typing import Final

BYTES_PER_ENTRY: Final = 24
LOAD_MAX: Final = 0.75  # fuller, and looking for what is not there takes long
_HASH_BYTES: Final = 16


def keys_in(buffer_bytes: int) -> int:
    """The number of keys for which a map of that size has room."""
    slots = 1 << (buffer_bytes // BYTES_PER_ENTRY).bit_length() - 1
    return int(slots * LOAD_MAX)


class KeyMap:
    """At most `entries_max` keys, of 32 to 64 bytes each.

    A word of 0 in the place of an offset plus one is a free slot.
    """

    __slots__ = ("_count", "_entries_max", "_mask", "_slots", "_words")

    def __init__(self, entries_max: int) -> None:
        slots = 1 << max(4, (math.ceil(entries_max / LOAD_MAX) - 1).bit_length())
        self._entries_max = entries_max
        self._mask = slots - 1
        self._slots = slots
        # Pages of the system: they come as zeros when they are first touched, and go back whole when the map does.
        self._words = memoryview(mmap.mmap(-1, slots * BYTES_PER_ENTRY)).cast("Q")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def buffer_bytes(self) -> int:
        return self._slots * BYTES_PER_ENTRY

    def put(self, hashed: bytes, offset: int) -> bool:
        """Note that the key has a record there, later than all before; False if there is no room for a new key."""
        at, first, second = self._find(hashed)
        if not self._words[at + 2]:
            if self._count >= self._entries_max:
                return False
            self._count += 1
            self._words[at], self._words[at + 1] = first, second
        self._words[at + 2] = offset + 1
        return True

    def newest(self, hashed: bytes) -> int:
        """The offset of the key's newest record that was noted, -1 if none was."""
        at, _, _ = self._find(hashed)
        return self._words[at + 2] - 1

    def _find(self, hashed: bytes) -> tuple[int, int, int]:
        """The slot of the key, or the free one for it, and its hash as two words."""
        first, second = int.from_bytes(hashed[:8], "little"), int.from_bytes(hashed[8:], "little")
        words, mask = self._words, self._mask
        slot = first & mask
        while True:
            at = slot * 3
            if not words[at + 2] or (words[at] == first and words[at + 1] == second):
                return at, first, second
            slot = (slot + 1) & mask


def hash_of(partition_id: int, key: bytes) -> bytes:
    """16 bytes for a key of a log."""
    return blake2b(key, digest_size=_HASH_BYTES, salt=partition_id.to_bytes(4, "big")).digest()
