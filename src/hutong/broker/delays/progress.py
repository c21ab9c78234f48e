"""The progress of one queue: the offset that is read next, and the one before which all records are elsewhere.

Pure: the driver reads the log, and lets it start where `start_offset` says.
"""

from collections import deque


class QueueProgress:
    """Records are taken in the order of their offsets, and settled in any."""

    __slots__ = ("_settled", "_taken", "is_open", "next_offset")

    def __init__(self, start_offset: int) -> None:
        self.next_offset = start_offset  # of what is read next
        self.is_open = True  # False: another node delivers what is in the queue, or nobody
        self._taken: deque[int] = deque()  # the first is not settled
        self._settled: dict[int, int] = {}  # behind the first of those: offset and time

    @property
    def start_offset(self) -> int:
        """The offset before which nothing is needed any more."""
        return self._taken[0] if self._taken else self.next_offset

    def __len__(self) -> int:
        """The number of those that are taken and not settled."""
        return len(self._taken) - len(self._settled)

    def begin_at(self, offset: int) -> None:
        """Let the log start at least there: somebody else has trimmed it."""
        self.next_offset = max(self.next_offset, offset)

    def take(self, offset: int) -> None:
        """Note a record that was read, and read on behind it."""
        self._taken.append(offset)
        self.next_offset = offset + 1

    def pass_over(self, next_offset: int) -> None:
        """Read on there: what is before it are no records."""
        self.next_offset = max(self.next_offset, next_offset)

    def settle(self, offset: int, due_ms: int) -> None:
        """Note that a record, which was due then, is elsewhere for good."""
        self._settled[offset] = due_ms
        while self._taken and self._taken[0] in self._settled:
            del self._settled[self._taken.popleft()]

    @property
    def oldest_again_ms(self) -> int | None:
        """The least time of records that are settled, and that come out again after a kill; None without any."""
        return min(self._settled.values(), default=None)

    def check_invariants(self) -> None:
        assert list(self._taken) == sorted(set(self._taken))
        assert self._settled.keys() < set(self._taken) or not self._settled
        assert not self._taken or (self._taken[0] not in self._settled and self._taken[-1] < self.next_offset)
