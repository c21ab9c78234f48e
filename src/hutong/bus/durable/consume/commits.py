"""Commits of one consumer: what is handled once in an interval, and notes as soon as possible.

Strategy: one commit is under way at a time, and what is added meanwhile makes one more together.

Knows nothing of who sends them.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hutong.bus.durable.consume.machine import DurableConsumerMachine

COMMIT_INTERVAL_MS: Final = 200
Positions = Mapping[int, tuple[int, str]]
"""Offset and note by partition."""
Then = Callable[[str | None], None]
"""Called with the reason of a failure, or None."""


class ConsumerCommits:
    """`send` starts a commit, urgent if a message waits for it; `settled` must be called once with its outcome.

    `warn` is called with the reason of each failure.
    """

    def __init__(
        self,
        send: Callable[[Positions, bool], None],
        machine: DurableConsumerMachine,
        loop: asyncio.AbstractEventLoop,
        warn: Callable[[str], None],
    ) -> None:
        self._send = send
        self._machine = machine
        self._loop = loop
        self._warn = warn
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._under_way: list[Then] | None = None
        self._next: dict[int, tuple[int, str]] = {}
        self._waiting: list[Then] = []
        self._is_urgent = False

    def commit_soon(self) -> None:
        """Commit what is handled, at the end of the interval."""
        # One commit for all that is handled in the interval; one for each message would cost a request each.
        if self._timer is None and not self._is_closed:
            self._timer = self._loop.call_later(COMMIT_INTERVAL_MS / 1_000, self._commit_handled)

    def _commit_handled(self) -> None:
        self._timer = None
        taken = self._machine.take_commits()
        if taken:
            positions = {partition: (offset, str(note)) for partition, (offset, note) in taken.items()}
            self.add(positions, lambda error: self._committed(taken, error), is_urgent=False)

    def _committed(self, taken: Iterable[int], error: str | None) -> None:
        if error is not None:
            # The next commit includes them again; offsets only grow, so nothing is committed twice in error.
            self._machine.give_back_commits(taken)
            self.commit_soon()

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def add(self, positions: Positions, then: Then, *, is_urgent: bool) -> None:
        # A later position of a partition replaces one that still waits: only the last one counts.
        self._next.update(positions)
        self._waiting.append(then)
        self._is_urgent = self._is_urgent or is_urgent
        self._send_next()

    def forget(self, partitions: Iterable[int]) -> None:
        """The partitions are not ours any more. Waiters are called all the same."""
        for partition in partitions:
            self._next.pop(partition, None)

    def settled(self, error: str | None) -> None:
        """The commit under way has ended; harmless where there is none."""
        ended, self._under_way = self._under_way or [], None
        if error is not None and ended:
            self._warn(error)
        for then in ended:
            then(error)
        self._send_next()

    def _send_next(self) -> None:
        if self._under_way is not None or not self._waiting:
            return
        positions, self._next = self._next, {}
        self._under_way, self._waiting = self._waiting, []
        is_urgent, self._is_urgent = self._is_urgent, False
        # Nothing is left of a revocation; its waiters are called all the same.
        if positions:
            self._send(positions, is_urgent)
        else:
            self.settled(None)
