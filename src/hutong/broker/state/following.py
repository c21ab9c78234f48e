"""The map of a state topic that another node leads, kept up to date by the tail of its log.

Strategy: a record changes the map only where its value is news, so a leader's snapshot changes nothing here. Where the
log was trimmed past what was applied, keys that died in between are in no record any more. Then all that the log had at
the trim is applied, and every key that it did not name is removed. The applied offset does not move meanwhile.

Knows nothing of what keys and values mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hutong.broker.state.state_tail import StateTail, TailPace, TailSource
from hutong.broker.state.state_topic import Apply, apply_record, records_in, size_of
from hutong.foundation.errors import CorruptData


class Following:
    """One follower's progress, over each log that it is given (`use`). Implements `TailSink`."""

    def __init__(
        self,
        name: str,
        live: Mapping[bytes, bytes],
        offset: int,
        *,
        change: Apply,
        advanced: Callable[[int, int], None],
        trimmed: Callable[[], None],
        failed: Callable[[CorruptData], None],
        pace: TailPace,
    ) -> None:
        """`change` sets a key of `live` or removes it; `advanced` gets the applied offset and the bytes read for it.

        `trimmed` is called when the leader has made the log shorter.
        """
        self._name = name
        self._live = live
        self._offset = offset  # of the next record
        self._applied_offset = offset  # behind it during a sweep
        self._change = change
        self._advanced = advanced
        self._on_trim = trimmed
        self.failed = failed
        self._pace = pace
        self._unseen: dict[bytes, None] | None = None  # during a sweep: keys that were not met since the new start
        self._sweep_end_offset = 0
        self._tail: StateTail | None = None

    def use(self, source: TailSource) -> None:
        """Follow this log from now on: another one, or the same after it was opened again."""
        self.stop()
        # All that a leader wrote before its trim was committed, so it is in every log that comes later.
        self._sweep_end_offset = source.end_offset
        # What a sweep still waited for may have been cut: no further record may come to say that all is applied.
        if self._unseen is not None:
            self._note_progress(0)
        self._tail = StateTail(source, self._offset, self, self._pace)
        self._tail.start()

    def stop(self) -> None:
        if self._tail is not None:
            self._tail.stop()
            self._tail = None

    def look(self) -> None:
        """Look for news soon."""
        if self._tail is not None:
            self._tail.look()

    def take(self, runs: Sequence[memoryview], offset: int) -> int:
        read_bytes = 0
        for record, key in records_in(self._name, runs, offset):
            value = record.value
            if self._unseen is not None:
                self._unseen.pop(key, None)
            if self._live.get(key) != value:
                apply_record(self._name, record, key, self._change)
            read_bytes += size_of(key, value)
            self._offset = record.offset + 1
        self._note_progress(read_bytes)
        return self._offset

    def trimmed(self, start_offset: int, end_offset: int) -> None:
        self._on_trim()
        if start_offset <= self._offset:
            return
        self._offset = start_offset
        self._unseen = dict.fromkeys(self._live)
        self._sweep_end_offset = end_offset
        self._note_progress(0)

    def _note_progress(self, read_bytes: int) -> None:
        self._end_sweep_if_due()
        if self._unseen is None:
            self._applied_offset = self._offset
        self._advanced(self._applied_offset, read_bytes)

    def _end_sweep_if_due(self) -> None:
        if self._unseen is None or self._offset < self._sweep_end_offset:
            return
        for key in self._unseen:
            if key in self._live:
                self._change(key, None)
        self._unseen = None
