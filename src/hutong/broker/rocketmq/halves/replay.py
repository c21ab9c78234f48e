"""The half messages that earlier lives of the node have left without a decision.

    decisions, all of them ──▶ a bit for each half message that is decided, times for those that were checked
    half messages          ──▶ those without a bit

Strategy: decisions first, so that memory holds one bit for a message that is decided, and an entry for one that is not.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from hutong.broker.rocketmq.halves.decisions import HalfOutcome, decode_decision
from hutong.broker.rocketmq.halves.half_messages import half_of
from hutong.broker.rocketmq.records.reading import LogScan
from hutong.broker.rocketmq.records.translation import message_of
from hutong.foundation.errors import HutongError, ProtocolError
from hutong.wire.rocketmq.messages import NO_HOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.rocketmq.halves.machine import HalfMachine
    from hutong.foundation.clock import Clock
    from hutong.foundation.waiting.pending import Continuation
    from hutong.journal.log import PartitionLog
    from hutong.wire.kafka.batch.records import Record

_log: Final = logging.getLogger("hutong.rocketmq")


class Replay:
    """One pass over both logs. Nothing is appended to them meanwhile."""

    def __init__(
        self,
        halves: PartitionLog,
        decisions: PartitionLog,
        machine: HalfMachine,
        clock: Clock,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self._halves = halves
        self._decisions = decisions
        self._machine = machine
        self._clock = clock
        self._post = post
        self._start_offset = halves.start_offset
        self._decided = bytearray((halves.high_watermark - halves.start_offset + 7) // 8)
        self._times: dict[int, int] = {}  # of those that were checked and are not decided

    def begin(self, then: Continuation[None]) -> None:
        """Put into the machine what is not decided; `then` is called once, also with an error of the disk."""

        def decisions_read(error: HutongError | None) -> None:
            if error is not None:
                then(error)
            else:
                LogScan(self._halves, self._take_half, self._post, then).step()

        LogScan(self._decisions, self._take_decision, self._post, decisions_read).step()

    def _take_decision(self, record: Record) -> None:
        try:
            decision = decode_decision(record.value or b"")
        # Somebody's topic had this name before.
        except ProtocolError as error:
            _log.error("a record of the decisions on half messages is left out: %s", error)
            return
        at = decision.offset - self._start_offset
        # Decided, and trimmed since.
        if not 0 <= at < 8 * len(self._decided):
            return
        if decision.outcome is HalfOutcome.CHECKED:
            self._times[decision.offset] = decision.times
        else:
            self._decided[at // 8] |= 1 << at % 8
            self._times.pop(decision.offset, None)

    def _take_half(self, record: Record) -> None:
        at = record.offset - self._start_offset
        half = None
        if not self._decided[at // 8] & 1 << at % 8:
            half = half_of(message_of(record, "", 0, 0, NO_HOST))
        # Decided, or none that this protocol has stored.
        if half is None:
            self._machine.passed(record.offset)
            return
        age_ms = self._clock.wall_ms() - record.timestamp_ms
        now_ms, times = self._clock.monotonic_ms(), self._times.get(record.offset, 0)
        self._machine.found(record.offset, half, times, age_ms, now_ms)
