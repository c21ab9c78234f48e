"""Memory for reads from the disk, reused once nobody holds a view of it.

Strategy: fresh memory costs more than the copy that fills it, because the kernel zeroes each of its pages first. So
memory is handed out as a view of an anonymous mapping that stays on a list, and whether it is free is tested, not
tracked: a mapping refuses to be resized while a view of it is held (as in `foundation.regions`). Memory that a slow
reader holds for long leaves the list, and is freed with its last view.

Knows nothing of files. For one thread: what a worker fills was taken before, on the loop.
"""

import mmap
from collections import deque
from typing import Final

SMALL_BYTES: Final = 128 * 1024
LARGE_BYTES: Final = 1152 * 1024  # a fetch of 1 MiB, which is what clients ask for, with the headers between
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024


class ReadMemory:
    """Keeps at most `kept_bytes_max`. Figures: reused_total, mapped_total, kept_bytes."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.reused_total = 0
        self.mapped_total = 0
        self.kept_bytes = 0
        self._kept_bytes_max = kept_bytes_max
        self._kept: deque[mmap.mmap] = deque()  # least recently taken first

    def lend(self, size: int) -> memoryview:
        """At least `size` writable bytes that nobody else reads, contents undefined."""
        wanted = SMALL_BYTES if size <= SMALL_BYTES else LARGE_BYTES if size <= LARGE_BYTES else size
        for index in reversed(range(len(self._kept))):  # the most recent is the likeliest to be in the CPU's cache
            memory = self._kept[index]
            if len(memory) == wanted and not _is_viewed(memory):
                del self._kept[index]
                self._kept.append(memory)
                self.reused_total += 1
                return memoryview(memory)
        return memoryview(self._map(wanted))

    def _map(self, size: int) -> mmap.mmap:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.mapped_total += 1
        self._kept.append(memory)
        self.kept_bytes += size
        while self.kept_bytes > self._kept_bytes_max:
            self.kept_bytes -= len(self._kept.popleft())
        return memory


def _is_viewed(memory: mmap.mmap) -> bool:
    try:
        memory.resize(len(memory))
    except BufferError:
        return True
    return False
