"""The messages of one answer, collected from runs until there are enough."""

from bisect import bisect_left
from collections.abc import Callable

from hutong.broker.rocketmq.records.converted import RunPart
from hutong.broker.rocketmq.records.stored_forms import StoredForm
from hutong.wire.buffer import Buffer


class Collected:
    """Messages in pieces, and the offset behind the last record that was looked at.

    It is full with `messages_max`, or with the message that fills `bytes_max`. `read_bytes` are those of the log that
    were looked at for it.
    """

    __slots__ = ("_bytes_max", "_messages_max", "count", "next_offset", "pieces", "read_bytes", "size")

    def __init__(self, next_offset: int, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.next_offset = next_offset
        self.pieces: list[Buffer] = []
        self.count = 0
        self.size = 0
        self.read_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._messages_max or self.size >= self._bytes_max

    @property
    def room(self) -> tuple[int, int]:
        """The messages and the bytes that are missing."""
        return self._messages_max - self.count, self._bytes_max - self.size

    def add(self, piece: Buffer, count: int, size: int) -> None:
        """Add one piece with `count` messages in `size` bytes."""
        self.pieces.append(piece)
        self.count += count
        self.size += size

    def take(self, part: RunPart) -> None:
        """Take all messages for which there is room, in one piece."""
        run, place = part
        places = run.places
        columns = len(places) // 3
        ends_at = columns + place
        begin = places[ends_at - 1] if place else 0
        messages, size = self.room
        stop = min(2 * columns, ends_at + messages)
        # The last one is the first that leaves no room for others.
        stop = min(stop, bisect_left(places, begin + size, ends_at, stop) + 1)
        end = places[stop - 1]
        self.add(memoryview(run.stored)[begin:end], stop - ends_at, end - begin)
        self.next_offset = places[stop - 1 - columns] + 1

    def take_some(self, part: RunPart, takes: Callable[[StoredForm], bool]) -> None:
        """Take those that a filter takes, until it is full."""
        run, place = part
        for each in range(place, len(run.offsets)):
            # Before the next one is looked at: an answer ends behind the last record that was.
            if self.is_full:
                return
            form = run.form(each)
            self.next_offset = form.offset + 1
            if takes(form):
                self.add(form.stored, 1, len(form.stored))

    def pass_over(self, offset: int) -> None:
        """Go on behind an offset, up to which nothing is left to take."""
        self.next_offset = max(self.next_offset, offset + 1)
