"""One page read by a consumer of its own. Blocks.

Decides nothing about the page: its machine does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.console.limits import LISTED_BYTES_MAX, PAGE_READ_MS_MAX
from hutong.console.masks import NO_MASKS, Masks
from hutong.console.records.paging.asked import AFTER, BEFORE, NEWEST, OFFSET, TIME, AskedPage
from hutong.console.records.paging.machine import PageMachine, Span
from hutong.console.records.reading.part_reader import PartReader
from hutong.console.records.reading.places import begins_of, ends_of, offsets_at, partitions_of
from hutong.console.records.seen import SeenRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.foundation.clock import Clock
    from hutong.rest.accounts import Account

_BATCH: Final = 500
_WAIT_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ReadPage:
    """The records in the page's order, and the places where its neighbours begin; None where there is nothing more."""

    records: list[SeenRecord]
    older: dict[int, int] | None
    newer: dict[int, int]
    begins: dict[int, int]
    ends: dict[int, int]
    is_partial: bool
    read_bytes: int


def read_page(account: Account, topic: str, asked: AskedPage, clock: Clock, masks: Masks) -> ReadPage:
    """Raises WebRefusal, KafkaException."""
    partitions = partitions_of(account, topic, asked.partitions)
    begins, ends = begins_of(account, topic, partitions), ends_of(account, topic, partitions)
    places = _places(account, topic, asked, begins, ends)
    if asked.is_newest_first:
        spans = {partition: (begins[partition], place) for partition, place in places.items()}
    else:
        spans = {partition: (place, ends[partition]) for partition, place in places.items()}
    machine = PageMachine(spans, asked.records_max, is_newest_first=asked.is_newest_first)
    read_bytes = 0
    if not machine.is_done:
        reader = PartReader(account.properties, masks)
        try:
            read_bytes = _read(reader, topic, machine, clock, LISTED_BYTES_MAX)
        finally:
            reader.close()
    bounds = machine.bounds()
    older = {partition: low for partition, (low, _) in bounds.items()}
    has_older = any(low > begins[partition] for partition, low in older.items())
    newer = {partition: high for partition, (_, high) in bounds.items()}
    is_partial = not machine.is_done  # the time was over
    return ReadPage(machine.page(), older if has_older else None, newer, begins, ends, is_partial, read_bytes)


def _places(
    account: Account, topic: str, asked: AskedPage, begins: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, int]:
    """The place where the page begins in each partition, within what is there."""
    wanted: Mapping[int, int]
    if asked.start == NEWEST:
        wanted = ends
    elif asked.start == OFFSET:
        wanted = dict.fromkeys(ends, asked.number)
    elif asked.start == TIME:
        found = offsets_at(account, topic, ends, asked.number)
        wanted = {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}
    elif asked.start in (BEFORE, AFTER):
        # A partition that is newer than the page: all of it is after, nothing before.
        wanted = {partition: (asked.positions or {}).get(partition, begins[partition]) for partition in ends}
    else:
        wanted = begins
    return {partition: min(max(wanted[partition], begins[partition]), ends[partition]) for partition in ends}


def _read(
    reader: PartReader, topic: str, machine: PageMachine, clock: Clock, payload_bytes_max: int | None = None
) -> int:
    """Read until the page is complete or the time is over; returns the bytes that were read."""
    until_ms = clock.monotonic_ms() + PAGE_READ_MS_MAX
    read_bytes = 0
    parts: dict[int, Span] = {}
    while not machine.is_done:
        wanted = machine.parts()
        # A part that was not begun: the consumer goes there. One that is partly read goes on.
        if any(parts.get(partition, (0, -1))[1] != end for partition, (_, end) in wanted.items()):
            parts = wanted
            reader.begin(topic, {partition: begin for partition, (begin, _) in parts.items()})
        records, ended = reader.read_parts(_BATCH, _WAIT_S, payload_bytes_max)
        read_bytes += sum(each.size_bytes for each in records)
        machine.receive(records)
        for partition in ended:
            # One that is not read any more: its event was on the way.
            if partition in parts:
                machine.reach_end(partition, parts[partition][1])
        if clock.monotonic_ms() > until_ms:
            break
    return read_bytes


def read_one(
    account: Account, topic: str, place: tuple[int, int], clock: Clock, masks: Masks = NO_MASKS
) -> SeenRecord | None:
    """The record at a partition's offset, None where there is none. Raises WebRefusal, KafkaException."""
    partition, offset = place
    partitions_of(account, topic, [partition])
    begin, end = begins_of(account, topic, [partition])[partition], ends_of(account, topic, [partition])[partition]
    if not begin <= offset < end:
        return None
    machine = PageMachine({partition: (offset, offset + 1)}, 1, is_newest_first=False)
    reader = PartReader(account.properties, masks)
    try:
        _read(reader, topic, machine, clock)
    finally:
        reader.close()
    return next(iter(machine.page()), None)
