"""Commits of one consumer: one under way at a time, and what comes meanwhile is one more together.

Knows nothing of who sends them.
"""

from collections.abc import Callable, Iterable, Mapping

Positions = Mapping[int, tuple[int, str]]
"""Offset and note by partition."""
Then = Callable[[str | None], None]
"""Called with the reason of a failure, or None."""


class CommitQueue:
    """`send` starts a commit; `settled` must be called once with its outcome. `is_urgent`: a message waits for it."""

    def __init__(self, send: Callable[[Positions, bool], None]) -> None:
        self._send = send
        self._under_way: list[Then] | None = None
        self._next: dict[int, tuple[int, str]] = {}
        self._waiting: list[Then] = []
        self._is_urgent = False

    def add(self, positions: Positions, then: Then, *, is_urgent: bool) -> None:
        self._next.update(positions)
        self._waiting.append(then)
        self._is_urgent = self._is_urgent or is_urgent
        self._begin()

    def forget(self, partitions: Iterable[int]) -> None:
        """The partitions are not ours any more. Waiters are called all the same."""
        for partition in partitions:
            self._next.pop(partition, None)

    def settled(self, error: str | None) -> None:
        """The commit under way has ended; harmless where there is none."""
        ended, self._under_way = self._under_way or [], None
        for then in ended:
            then(error)
        self._begin()

    def _begin(self) -> None:
        if self._under_way is not None or not self._waiting:
            return
        positions, self._next = self._next, {}
        self._under_way, self._waiting = self._waiting, []
        is_urgent, self._is_urgent = self._is_urgent, False
        if positions:
            self._send(positions, is_urgent)
        else:
            self.settled(None)
