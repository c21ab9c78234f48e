"""Recalled records: those that wait, and shall not come to their topic.

A recall names the topic of a record and the id that its producer gave it. Where the record waits is not known, so it is
left out when it comes out of a queue. A recall is kept until nothing that was due by then can come any more.

Pure: the driver keeps recalls in a log, and replays that.
"""

from typing import Final

from hutong.foundation.errors import LimitExceeded

RECALLS_MAX: Final = 100_000  # some 25 MB
KEPT_MS: Final = 60_000  # beyond its time: a record may be between two queues


class Recalls:
    """The recalls of a node, by topic and id."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bytes], tuple[int, int]] = {}  # with time, and offset in the log of recalls

    def __len__(self) -> int:
        return len(self._kept)

    def check_room(self) -> None:
        """Raise LimitExceeded where no other recall can be kept."""
        if len(self._kept) >= RECALLS_MAX:
            raise LimitExceeded("RECALLS_MAX", RECALLS_MAX)

    def note(self, topic: str, record_id: bytes, due_ms: int, offset: int) -> None:
        """Keep a recall, which is at this offset of the log."""
        self._kept[topic, record_id] = due_ms, offset

    def has(self, topic: str, record_id: bytes) -> bool:
        """True for a record that was recalled."""
        return (topic, record_id) in self._kept

    def clear(self) -> None:
        """Forget all: another node keeps them."""
        self._kept.clear()

    def forget(self, passed_ms: int) -> None:
        """Forget recalls of records that would have come by now: all that was due before `passed_ms` has."""
        limit_ms = passed_ms - KEPT_MS
        self._kept = {key: kept for key, kept in self._kept.items() if kept[0] >= limit_ms}

    def start_offset(self, end_offset: int) -> int:
        """The offset where the log of recalls may begin."""
        return min((offset for _, offset in self._kept.values()), default=end_offset)
