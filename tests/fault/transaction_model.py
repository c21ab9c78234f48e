"""What one log's transactions must come to, told by what was appended: the plainest account there is.

Strategy: a list of what happened at which offset; every question is answered by going through all of it. A crash cuts
the list where it cut the log. Nothing here looks into the journal but `read_committed`, which reads as a client does.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tests.unit.journal.stage import Stage

from hutong.journal.append.transactions import aborted_between
from hutong.journal.format.batches import end_offset_of
from hutong.journal.log import PartitionLog
from hutong.wire.kafka.batch.control_records import parse_marker
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records

Entry = tuple[int, bytes | None, bytes | None]  # offset, key, value


class Event(NamedTuple):
    """Data of a producer's transaction at an offset, or its end."""

    offset: int
    producer_id: int
    is_commit: bool | None = None  # None for data


class Ended(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int
    is_commit: bool


class TransactionAccount:
    """Of one log."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put_data(self, base_offset: int, producer_id: int, count: int) -> None:
        self.events += [Event(base_offset + number, producer_id) for number in range(count)]

    def put_marker(self, offset: int, producer_id: int, *, is_commit: bool) -> None:
        self.events.append(Event(offset, producer_id, is_commit))

    def forget_from(self, end_offset: int) -> None:
        self.events = [event for event in self.events if event.offset < end_offset]

    def markers(self) -> set[int]:
        return {event.offset for event in self.events if event.is_commit is not None}

    def replay(self) -> tuple[dict[int, int], list[Ended]]:
        """First offsets of what is open, by producer, and what has ended."""
        opened: dict[int, int] = {}
        ended: list[Ended] = []
        for offset, producer_id, is_commit in self.events:
            if is_commit is None:
                opened.setdefault(producer_id, offset)
            elif producer_id in opened:
                ended.append(Ended(producer_id, opened.pop(producer_id), offset, is_commit))
        return opened, ended

    def aborted_offsets(self) -> set[int]:
        """Of all data in transactions that were aborted."""
        _, ended = self.replay()
        aborted = [entry for entry in ended if not entry.is_commit]
        return {
            offset
            for offset, producer_id, is_commit in self.events
            if is_commit is None
            and any(
                entry.producer_id == producer_id and entry.first_offset <= offset < entry.marker_offset
                for entry in aborted
            )
        }

    def check(self, log: PartitionLog, *, is_cleaned: bool) -> None:
        """The transactions as the log has them."""
        opened, ended = self.replay()
        start, high_watermark = log.start_offset, log.high_watermark
        for producer_id, first_offset in opened.items():
            found = log.open_transaction(producer_id)
            # A start that must read everything cannot know what lay before the log's start.
            assert found is not None, "an open transaction is forgotten"
            assert found == first_offset or first_offset < found <= max(start, found if is_cleaned else start)
        unstable = [*opened.values(), *(one.first_offset for one in ended if one.marker_offset >= high_watermark)]
        stable_offset = max(start, min([high_watermark, *unstable]))
        assert log.last_stable_offset == stable_offset, "committed readers are sent too far, or not far enough"
        aborted = {
            (entry.producer_id, entry.first_offset)
            for entry in ended
            if not entry.is_commit and entry.marker_offset >= start
        }
        told = set(log.aborted_between(0, high_watermark + 1_000))
        if is_cleaned:
            assert {producer_id for producer_id, _ in told} <= {producer_id for producer_id, _ in aborted}
        else:
            assert told == aborted

    def check_committed(self, found: Sequence[Entry], log: PartitionLog) -> None:
        """The records that a committed reader got of the whole log."""
        aborted, stable_offset = self.aborted_offsets(), log.last_stable_offset
        offsets = {offset for offset, _, _ in found}
        assert not offsets & aborted, "a committed reader sees what was aborted"
        assert all(offset < stable_offset for offset in offsets), "a committed reader sees what is open"


def read_committed(stage: Stage, log: PartitionLog, max_bytes: int) -> list[Entry]:
    """Every record that a committed reader is shown, who leaves out what the log tells him to."""
    found: list[Entry] = []
    offset = log.start_offset
    while offset < log.last_stable_offset:
        rows = log.transactions.aborted.rows() if log.transactions is not None else None
        views = stage.read(log, offset, max_bytes, up_to=log.last_stable_offset)
        assert views, f"nothing at offset {offset} below the last stable offset {log.last_stable_offset}"
        aborted = aborted_between(rows, offset, end_offset_of(views)) if rows is not None else []
        found += [entry for entry in _leave_out(views, aborted) if entry[0] >= offset]
        offset = end_offset_of(views)
    return found


def _leave_out(views: Sequence[memoryview], aborted: list[tuple[int, int]]) -> list[Entry]:
    """As Kafka's consumer does: from an aborted transaction's first offset to the producer's next marker."""
    begins = sorted(aborted, key=lambda entry: entry[1])
    aborting: set[int] = set()
    kept: list[Entry] = []
    for view in views:
        for header, batch in iterate_batches(view):
            while begins and begins[0][1] <= header.last_offset:
                aborting.add(begins.pop(0)[0])
            if header.is_control:
                marker = parse_marker(batch)
                if marker is not None and not marker.is_commit:
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                kept += [(record.offset, record.key, record.value) for record in iterate_records(batch)]
    return kept
