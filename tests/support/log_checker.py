"""Judges a history of produce and consume operations against what a log promises.

Strategy: linear, after Jepsen's Kafka workload. Values are unique over the whole history. What a producer did is kept
as invoked and then acknowledged (with its offset), failed for certain, or unknown (the process died, the answer never
came): an unknown one may or may not be in the log, but at most once. Everything found is returned, nothing is raised.

Knows nothing of clients: tests record what their clients said.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

Partition = tuple[str, int]

LOST: Final = "lost"
DUPLICATED: Final = "duplicated"
REORDERED: Final = "reordered"
INCONSISTENT_OFFSET: Final = "inconsistent offset"
MOVED: Final = "acknowledged at another offset"
FAILED_BUT_READ: Final = "failed but read"
NEVER_SENT: Final = "read but never sent"
NOT_RISING: Final = "offsets do not rise"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise."""

    kind: str
    partition: Partition
    detail: str


@dataclass(slots=True)
class History:
    """What clients did and saw. A producer is any label under which sends were made in order."""

    invoked: dict[Partition, dict[str, list[bytes]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    acknowledged: dict[Partition, dict[bytes, int]] = field(default_factory=lambda: defaultdict(dict))
    failed: dict[Partition, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    polled: dict[Partition, list[list[tuple[int, bytes]]]] = field(default_factory=lambda: defaultdict(list))

    def invoke(self, producer: str, partition: Partition, value: bytes) -> None:
        self.invoked[partition][producer].append(value)

    def acknowledge(self, partition: Partition, value: bytes, offset: int) -> None:
        self.acknowledged[partition][value] = offset

    def fail(self, partition: Partition, value: bytes) -> None:
        """It is certain that the record was not, and never will be, appended."""
        self.failed[partition].add(value)

    def poll(self, partition: Partition, records: Iterable[tuple[int, bytes]]) -> None:
        """What one consumer read of a partition from some offset on, without seeking, in the order it came."""
        self.polled[partition].append(list(records))


def check(history: History, *, final_reads: Mapping[Partition, Sequence[tuple[int, bytes]]]) -> list[Anomaly]:
    """All anomalies. `final_reads` holds each partition read from start to end once everything is quiet."""
    found: list[Anomaly] = []
    for partition, final in final_reads.items():
        found += _check_partition(history, partition, final)
    unread = history.acknowledged.keys() - final_reads.keys()
    return found + [Anomaly(LOST, partition, "acknowledged records, but no final read") for partition in unread]


def _check_partition(history: History, partition: Partition, final: Sequence[tuple[int, bytes]]) -> list[Anomaly]:
    invoked = history.invoked[partition]
    acknowledged = history.acknowledged[partition]
    offsets: dict[bytes, list[int]] = defaultdict(list)
    for offset, value in final:
        offsets[value].append(offset)
    reads = [*history.polled[partition], final]
    found = [(LOST, f"{value!r} at {offset}") for value, offset in acknowledged.items() if value not in offsets]
    found += [(DUPLICATED, f"{value!r} at {places}") for value, places in offsets.items() if len(places) > 1]
    found += [
        (MOVED, f"{value!r}: {offset}, read at {offsets[value]}")
        for value, offset in acknowledged.items()
        if value in offsets and offset >= 0 and offset not in offsets[value]
    ]
    found += [(FAILED_BUT_READ, repr(value)) for value in history.failed[partition] & offsets.keys()]
    sent = {value for values in invoked.values() for value in values}
    found += [(NEVER_SENT, repr(value)) for value in offsets.keys() - sent]
    found += _inconsistent(reads, acknowledged)
    found += _reordered(invoked, offsets)
    found += _not_rising(reads)
    return [Anomaly(kind, partition, detail) for kind, detail in found]


def _inconsistent(
    reads: Sequence[Sequence[tuple[int, bytes]]], acknowledged: Mapping[bytes, int]
) -> list[tuple[str, str]]:
    """Offsets that held more than one value over the whole history."""
    seen: dict[int, set[bytes]] = defaultdict(set)
    for read in reads:
        for offset, value in read:
            seen[offset].add(value)
    for value, offset in acknowledged.items():
        if offset >= 0:
            seen[offset].add(value)
    return [(INCONSISTENT_OFFSET, f"{offset}: {sorted(values)}") for offset, values in seen.items() if len(values) > 1]


def _reordered(invoked: Mapping[str, Sequence[bytes]], offsets: Mapping[bytes, Sequence[int]]) -> list[tuple[str, str]]:
    """Per producer: a later send that stands before an earlier one (first occurrences)."""
    found = []
    for producer, values in invoked.items():
        before: tuple[int, bytes] | None = None
        for value in values:
            if value not in offsets:
                continue
            here = offsets[value][0]
            if before and here < before[0]:
                found.append(
                    (REORDERED, f"{producer}: {value!r} at {here}, {before[1]!r} sent before it at {before[0]}")
                )
            before = here, value
    return found


def _not_rising(reads: Sequence[Sequence[tuple[int, bytes]]]) -> list[tuple[str, str]]:
    return [
        (NOT_RISING, f"{earlier[0]} then {later[0]}")
        for read in reads
        for earlier, later in pairwise(read)
        if later[0] <= earlier[0]
    ]
