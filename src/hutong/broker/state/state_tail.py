"""The tail of a state topic that another node leads: its records, as they are committed, in order, each once.

Strategy: it looks whenever the log has news, reads one bounded run of batches, hands it on, and looks again in a later
turn of the loop. So a follower that is far behind never holds the loop, and one that is up to date applies a record in
the turn after its commit. A log whose start has passed the tail was trimmed by its leader; the sink hears of it,
because what it had before may be gone.

Knows nothing of keys and values, nor of who leads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hutong.broker.state.state_topic import StateStorage
from hutong.foundation.errors import CorruptData, HutongError
from hutong.foundation.waiting.pending import Continuation

RETRY_MS: Final = 200
"""After a read that failed: of a log that is being closed, or while too many reads are under way."""


@dataclass(frozen=True, slots=True)
class TailPace:
    """The times at which a tail goes on: `soon` is a later turn of the loop, `later` gets the milliseconds to wait."""

    soon: Callable[[Callable[[], None]], object]
    later: Callable[[int, Callable[[], None]], object]


class TailSource(Protocol):
    """The log that is followed."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def committed_offset(self) -> int:
        """Everything before it is committed; what comes after may still be cut."""
        ...

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back each time the committed offset or the start may have moved."""
        ...

    def unwatch(self, callback: Callable[[], None]) -> None: ...

    def read_committed(self, offset: int, then: Continuation[Sequence[memoryview]]) -> None:
        """Read whole batches from the one that holds `offset` up to the committed offset, perhaps at once."""
        ...


class FollowedStorage(StateStorage, TailSource, Protocol):
    """A log that a topic can follow, and lead afterwards."""


class TailSink(Protocol):
    """The receiver of what a tail finds."""

    def take(self, runs: Sequence[memoryview], offset: int) -> int:
        """Apply the records from `offset` on; returns the offset behind the last one. Raises CorruptData."""
        ...

    def trimmed(self, start_offset: int, end_offset: int) -> None:
        """Note that the log starts at another offset now, and ends here, with all that was written before the trim."""
        ...

    def failed(self, error: CorruptData) -> None:
        """Note that nothing more is applied: the log has a record that this node cannot read."""
        ...


class StateTail:
    """One tail over one log, from its start to `stop`. `offset` is that of the next record to be applied."""

    def __init__(self, source: TailSource, offset: int, sink: TailSink, pace: TailPace) -> None:
        self.offset = offset
        self._source = source
        self._sink = sink
        self._pace = pace
        self._start_offset = min(offset, source.start_offset)
        self._is_under_way = False  # a step is scheduled, or a read has not ended
        self._is_over = False

    def start(self) -> None:
        self._source.watch(self.look)
        self.look()

    def stop(self) -> None:
        """Apply nothing more, also of a read that is under way."""
        self._is_over = True
        self._source.unwatch(self.look)

    def look(self) -> None:
        """Look for news in a later turn. It may be called at any time."""
        if not self._is_under_way and not self._is_over:
            self._is_under_way = True
            self._pace.soon(self._step)

    def _step(self) -> None:
        self._is_under_way = False
        if self._is_over:
            return
        source = self._source
        start_offset = source.start_offset
        if start_offset > self._start_offset:
            self._start_offset = start_offset
            self.offset = max(self.offset, start_offset)
            self._sink.trimmed(start_offset, source.end_offset)
        # The sink may lead by now, which stops this tail.
        if not self._is_over and self.offset < source.committed_offset:
            self._is_under_way = True
            source.read_committed(self.offset, self._read)

    def _read(self, outcome: Sequence[memoryview] | HutongError) -> None:
        if self._is_over:
            return
        if isinstance(outcome, HutongError):
            self._pace.later(RETRY_MS, self._step)
            return
        offset = self.offset
        try:
            self.offset = self._sink.take(outcome, offset)
        except CorruptData as error:
            self.stop()
            self._sink.failed(error)
            return
        # A read without progress would repeat for ever.
        if self.offset == offset:
            self._pace.later(RETRY_MS, self._step)
            return
        self._is_under_way = False
        self.look()
