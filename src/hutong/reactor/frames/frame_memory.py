"""Memory of large frames, used again once no view of it is left.

Strategy: as with the regions of `foundation.regions`, ownership is not tracked but asked for: a `bytearray` refuses to
change its size while a view of it is held. Fresh memory costs several times the copy that fills it, because each of its
pages is first zeroed twice, by the kernel and by Python.

Knows nothing of frames. One loop, one memory: not for several threads.
"""

from collections import deque

KEPT_BYTES_MAX = 16 * 1024 * 1024


class FrameMemory:
    """Keeps at most `kept_bytes_max`; a buffer that it drops lives on by the views held of it.

    Figures: `reused_total`, `kept_bytes`.
    """

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.reused_total = 0
        self.kept_bytes = 0
        self._kept_bytes_max = kept_bytes_max
        self._kept: deque[bytearray] = deque()  # least recently filled first

    def take_buffer(self, size: int) -> bytearray | None:
        """A buffer of at least `size` bytes without views of it, contents undefined, or None."""
        for index in reversed(range(len(self._kept))):  # the most recent is the likeliest to be in the cache
            buffer = self._kept[index]
            if len(buffer) >= size and not _is_viewed(buffer):
                del self._kept[index]
                self.kept_bytes -= len(buffer)
                self.reused_total += 1
                return buffer
        return None

    def keep_buffer(self, buffer: bytearray) -> None:
        """Remember a buffer that was handed out, for when its views are gone."""
        self._kept.append(buffer)
        self.kept_bytes += len(buffer)
        while self.kept_bytes > self._kept_bytes_max:
            self.kept_bytes -= len(self._kept.popleft())


def _is_viewed(buffer: bytearray) -> bool:
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return True
    return False
