"""The events by which the parts of one journal notify one another.

Strategy: a part calls the events it causes; `parts.connect` alone decides who reacts. So the graph of a journal is
written in one place, and each part can be read, and tested, without knowing the others.
"""

from collections.abc import Callable

from hutong.foundation.errors import HutongError, StorageError, StorageShortage
from hutong.journal.files.segment import Segment


def _ignore(*_: object) -> None:
    """Do nothing: the reaction to an event before the parts are connected."""


class JournalEvents:
    """One attribute per event. Those with a list may be joined by the users of a journal."""

    __slots__ = (
        "batch_deferred",
        "checkpoint_ended",
        "cleaning_ended",
        "congestion_changed",
        "failed",
        "flush_due",
        "flushed",
        "log_trimmed",
        "removal_failed",
        "replicas_followed",
        "segment_closed",
        "segment_unused",
        "shortage_changed",
    )

    def __init__(self) -> None:
        self.flush_due: Callable[[], None] = _ignore  # a chunk was sealed, or somebody waits for one
        self.batch_deferred: Callable[[], None] = _ignore  # the first batch that nobody waits for: a timer seals it
        self.replicas_followed: Callable[[], None] = _ignore  # after the flush of the same bytes
        self.log_trimmed: Callable[[], None] = _ignore  # a log starts later than it did, or was deleted
        self.segment_closed: Callable[[Segment], None] = _ignore  # it gets no more chunks
        self.segment_unused: Callable[[Segment], None] = _ignore  # taken out, and nobody reads it any more
        self.checkpoint_ended: Callable[[HutongError | None], None] = _ignore  # not for the one of a clean stop
        self.cleaning_ended: Callable[[], None] = _ignore
        self.removal_failed: Callable[[StorageError], None] = _ignore
        self.flushed: list[Callable[[], None]] = []  # the flushed position advanced
        self.failed: list[Callable[[StorageError], None]] = []  # for good
        self.shortage_changed: list[Callable[[StorageShortage | None], None]] = []  # None: it is over
        self.congestion_changed: list[Callable[[bool], None]] = []
