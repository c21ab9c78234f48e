"""Giving back what deleted logs have left in a journal that still has others: step by step, as its files allow.

    the active segment holds some        close it
    a segment is not in a checkpoint     write one, and go on when that is done
    a segment is mostly garbage          write it again, and go on when cleaning has ended
    nothing is left to do, or can be     resume who waits

Strategy: the owner that wants it parks a continuation. A journal does not do that by itself: its segments go as a
whole when all of their data are old. What a shortage has ended is tried again a little later.
"""

from collections.abc import Mapping
from typing import Final

from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.timers import Timer
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.writer import Writer
from hutong.journal.clean.cleaner import Cleaner
from hutong.journal.clean.compaction import garbage
from hutong.journal.log import PartitionLog
from hutong.journal.recover.checkpointer import Checkpointer
from hutong.journal.resources import JournalPart, JournalResources

AGAIN_MS: Final = 500


class Shedding(JournalPart):
    """Sheds garbage of one journal, while somebody waits for that."""

    def __init__(
        self,
        resources: JournalResources,
        logs: Mapping[int, PartitionLog],
        writer: Writer,
        checkpointer: Checkpointer,
        cleaner: Cleaner,
    ) -> None:
        super().__init__(resources)
        self._logs = logs
        self._writer = writer
        self._checkpointer = checkpointer
        self._cleaner = cleaner
        self._waiting: list[Continuation[None]] = []
        self._timer: Timer | None = None
        self._is_stepping = False
        self._has_ended_at_once = False

    def begin(self, then: Continuation[None]) -> None:
        """Call `then` once nothing is left to do, or can be done; with OwnerGone where the journal ends before that."""
        self._waiting.append(then)
        self.go_on(None)

    def go_on(self, error: HutongError | None) -> None:
        """Take the next step: a checkpoint or a cleaning has ended, perhaps with an error."""
        if not self._waiting or self._timer is not None:
            return
        # A cleaning that cannot begin ends within its own step.
        if self._is_stepping:
            self._has_ended_at_once = True
            return
        self._is_stepping, self._has_ended_at_once = True, error is not None
        # With a cleaner that has failed the owner waits no longer: what is left costs space, and nothing else.
        is_done = self._cleaner.has_failed or (error is None and self._take_step())
        self._is_stepping = False
        if is_done:
            self._resume(None)
        elif self._has_ended_at_once:
            self._timer = self._timers.add(self._clock.monotonic_ms() + AGAIN_MS, self._try_again)

    def stop(self) -> None:
        """Take no more steps."""
        # The timer first: a continuation may begin anew, with the next journal of the replica.
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._resume(OwnerGone("the journal was closed"))

    def _try_again(self) -> None:
        self._timer = None
        self.go_on(None)

    def _take_step(self) -> bool:
        """Begin the next step, if none is under way. True once all is done."""
        active = self._segments.active
        # Nothing that is still written to is ever written again.
        if active is not None and not self._segments.active_index.extents.keys() <= self._logs.keys():
            self._writer.roll()
        # A start scans what is behind the checkpoint, and expects it as it was written.
        closed = [segment for segment in self._segments.all() if segment is not self._segments.active]
        if closed and (closed[-1].next_position or 0) > self._checkpointer.last_position:
            self._checkpointer.begin_checkpoint()
            return False
        # Of compaction, or of an earlier step: its end is heard of.
        if self._cleaner.is_running:
            return False
        if not garbage(self._logs.values(), closed):
            return True
        self._cleaner.look_for_garbage()
        self._cleaner.begin_cleaning({})
        return False

    def _resume(self, outcome: HutongError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(outcome)
