"""The end of one log: the part of its state that the writer and the journal's progress move.

    start_offset <= last_stable_offset <= high_watermark <= sealed_offset <= end_offset
    first kept      decided               visible           in the cache     given to a batch

The high watermark of a receive-QoS log may be ahead of the cache: reading there seals what the writer holds.

Knows nothing of the writer, which changes it, and nothing of files. Offsets are Kafka's.
"""

import sys
from collections.abc import Callable
from typing import Final

from hutong.journal.format.index import Extents
from hutong.journal.read.runs import CachedRuns

ROLL_BYTES_MIN: Final = 1024 * 1024


class LogTail:
    """The offsets of one log, its newest batches, and the callbacks that wait for news of it.

    Batches of `receive_qos` logs are visible as soon as the journal has them, those of other logs once they are safe.
    """

    __slots__ = (
        "_watchers",
        "cached_runs",
        "end_offset",
        "extents",
        "has_cached_runs",
        "high_watermark",
        "is_deleted",
        "log_append_time",
        "partition_id",
        "receive_qos",
        "roll_bytes",
        "sealed_offset",
        "start_offset",
    )

    def __init__(self, partition_id: int, start_offset: int, end_offset: int) -> None:
        self.partition_id = partition_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.sealed_offset = end_offset
        self.high_watermark = end_offset
        self.receive_qos = False
        self.log_append_time = False
        self.roll_bytes = sys.maxsize  # the active segment may hold so many bytes of the log
        self.is_deleted = False
        self.cached_runs = CachedRuns()
        self.has_cached_runs = False  # the writer's trimming pass knows this log
        self.extents: Extents | None = None  # in the active segment
        self._watchers: dict[Callable[[], None], None] = {}

    def configure(self, *, receive_qos: bool, log_append_time: bool, segment_bytes: int = sys.maxsize) -> None:
        """Apply the topic's settings to everything that is appended from now on."""
        self.receive_qos = receive_qos
        self.log_append_time = log_append_time
        # Kafka takes no `segment.bytes` below 1 MiB (KIP-1030). Here the segment is shared: a file for every few
        # records of one topic would cost all topics of the partition group.
        self.roll_bytes = max(segment_bytes, ROLL_BYTES_MIN)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back each time the high watermark or the start has moved, or the log was deleted, until `unwatch`."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.pop(callback, None)

    def advance_high_watermark(self, offset: int) -> None:
        """Make everything before `offset` visible."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.notify_watchers()

    def notify_watchers(self) -> None:
        for callback in list(self._watchers):
            callback()
