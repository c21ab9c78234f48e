"""Judges a history of produce and consume operations against what a log promises.

Strategy: linear, after Jepsen's Kafka workload. Values are unique over the whole history. What a producer did is kept
as invoked and then acknowledged (with its offset), failed for certain, or unknown (the process died, the answer never
came): an unknown one may or may not be in the log, but at most once. Groups are judged by what their members processed
and committed. Everything found is returned, nothing is raised.

Knows nothing of clients: tests record what their clients said. Histories recorded in several threads are merged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

Partition = tuple[str, int]
Share = tuple[str, Partition]  # a group and one of its partitions

LOST: Final = "lost"
DUPLICATED: Final = "duplicated"
REORDERED: Final = "reordered"
INCONSISTENT_OFFSET: Final = "inconsistent offset"
MOVED: Final = "acknowledged at another offset"
FAILED_BUT_READ: Final = "failed but read"
NEVER_SENT: Final = "read but never sent"
NOT_RISING: Final = "offsets do not rise"
SKIPPED: Final = "offsets left out"
UNPROCESSED: Final = "committed but never processed"
COMMIT_LOST: Final = "acknowledged commit lost"
TWO_OWNERS: Final = "two owners in one generation"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise."""

    kind: str
    partition: Partition
    detail: str


@dataclass(slots=True)
class History:
    """The deeds and findings of clients. A producer is any label under which sends were made in order."""

    invoked: dict[Partition, dict[str, list[bytes]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    acknowledged: dict[Partition, dict[bytes, int]] = field(default_factory=lambda: defaultdict(dict))
    failed: dict[Partition, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    polled: dict[Partition, list[list[tuple[int, bytes]]]] = field(default_factory=lambda: defaultdict(list))
    deleted: dict[Partition, int] = field(default_factory=lambda: defaultdict(int))
    repeating: set[str] = field(default_factory=set)
    processed: dict[Share, set[int]] = field(default_factory=lambda: defaultdict(set))
    committed: dict[Share, int] = field(default_factory=lambda: defaultdict(int))
    owners: dict[tuple[Share, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    def may_repeat(self, producer: str) -> None:
        """The producer sends again without saying so: its records may be there twice."""
        self.repeating.add(producer)

    def invoke(self, producer: str, partition: Partition, value: bytes) -> None:
        self.invoked[partition][producer].append(value)

    def acknowledge(self, partition: Partition, value: bytes, offset: int) -> None:
        self.acknowledged[partition][value] = offset

    def fail(self, partition: Partition, value: bytes) -> None:
        """It is certain that the record was not, and never will be, appended."""
        self.failed[partition].add(value)

    def delete_before(self, partition: Partition, offset: int) -> None:
        """Somebody asked for this: what lies before it may be gone, whatever the answer was."""
        self.deleted[partition] = max(self.deleted[partition], offset)

    def poll(self, partition: Partition, records: Iterable[tuple[int, bytes]]) -> None:
        """Note the records that one consumer read of a partition without seeking, in the order they came."""
        self.polled[partition].append(list(records))

    def process(self, group: str, partition: Partition, offset: int) -> None:
        """A member is done with a record."""
        self.processed[group, partition].add(offset)

    def commit(self, group: str, partition: Partition, offset: int) -> None:
        """A member's commit was acknowledged: everything before `offset` is done."""
        share = group, partition
        self.committed[share] = max(self.committed[share], offset)

    def own(self, group: str, generation: int, partition: Partition, member: str) -> None:
        """A member was told that the partition is its own in that generation of the group."""
        self.owners[(group, partition), generation].add(member)


def merged(histories: Iterable[History]) -> History:
    """One history of all that happened; a producer's label occurs in one of them only."""
    whole = History()
    for history in histories:
        for partition, producers in history.invoked.items():
            whole.invoked[partition].update(producers)
        for partition, offsets in history.acknowledged.items():
            whole.acknowledged[partition].update(offsets)
        for partition, values in history.failed.items():
            whole.failed[partition] |= values
        for partition, reads in history.polled.items():
            whole.polled[partition] += reads
        for partition, offset in history.deleted.items():
            whole.delete_before(partition, offset)
        whole.repeating |= history.repeating
        for share, processed in history.processed.items():
            whole.processed[share] |= processed
        for (group, partition), offset in history.committed.items():
            whole.commit(group, partition, offset)
        for owned, members in history.owners.items():
            whole.owners[owned] |= members
    return whole


def check(
    history: History,
    *,
    final_reads: Mapping[Partition, Sequence[tuple[int, bytes]]],
    final_commits: Mapping[Share, int] | None = None,
) -> list[Anomaly]:
    """All anomalies. `final_reads` holds each partition read from start to end once everything is quiet.

    `final_commits` is what each group finds committed then.
    """
    found: list[Anomaly] = []
    for partition, final in final_reads.items():
        found += _check_partition(history, partition, final)
    unread = {partition for partition, values in history.acknowledged.items() if values} - final_reads.keys()
    found += [Anomaly(LOST, partition, "acknowledged records, but no final read") for partition in unread]
    return found + _check_groups(history, final_commits or {})


def _check_partition(history: History, partition: Partition, final: Sequence[tuple[int, bytes]]) -> list[Anomaly]:
    invoked = history.invoked[partition]
    acknowledged = history.acknowledged[partition]
    start = history.deleted.get(partition, 0)
    offsets: dict[bytes, list[int]] = defaultdict(list)
    for offset, value in final:
        offsets[value].append(offset)
    repeatable = {value for producer in history.repeating for value in invoked.get(producer, ())}
    reads = [*history.polled[partition], final]
    found = _lost(history, partition, final, start)
    found += [
        (DUPLICATED, f"{value!r} at {places}")
        for value, places in offsets.items()
        if len(places) > 1 and value not in repeatable
    ]
    found += [
        (MOVED, f"{value!r}: {offset}, read at {offsets[value]}")
        for value, offset in acknowledged.items()
        if value in offsets and offset >= start and offset not in offsets[value]
    ]
    found += [(FAILED_BUT_READ, repr(value)) for value in history.failed[partition] & offsets.keys()]
    sent = {value for values in invoked.values() for value in values}
    found += [(NEVER_SENT, repr(value)) for value in offsets.keys() - sent]
    found += _inconsistent(reads, acknowledged)
    found += _reordered(invoked, offsets)
    found += _not_rising(reads, start)
    return [Anomaly(kind, partition, detail) for kind, detail in found]


def _lost(
    history: History, partition: Partition, final: Sequence[tuple[int, bytes]], start: int
) -> list[tuple[str, str]]:
    """The records that were acknowledged, or shown to a consumer, and are missing although nobody gave them up."""
    kept = {value for _, value in final}
    found = [
        (LOST, f"{value!r} at {offset}")
        for value, offset in history.acknowledged[partition].items()
        if value not in kept and (offset >= start or offset < 0)
    ]
    acknowledged = history.acknowledged[partition].keys()
    shown = {record for read in history.polled[partition] for record in read}
    found += [
        (LOST, f"{value!r}, read at {offset}")
        for offset, value in shown
        if value not in kept and offset >= start and value not in acknowledged
    ]
    if final and final[0][0] > start:
        found.append((LOST, f"the log begins at {final[0][0]}, nothing after {start} was deleted"))
    return found


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


def _not_rising(reads: Sequence[Sequence[tuple[int, bytes]]], start: int) -> list[tuple[str, str]]:
    """Reads that go back, or leave out what nobody gave up."""
    found = []
    for read in reads:
        for (earlier, _), (later, _) in pairwise(read):
            if later <= earlier:
                found.append((NOT_RISING, f"{earlier} then {later}"))
            elif later > earlier + 1 and later > start:
                found.append((SKIPPED, f"{earlier} then {later}"))
    return found


def _check_groups(history: History, final_commits: Mapping[Share, int]) -> list[Anomaly]:
    found = []
    for share, committed in history.committed.items():
        group, partition = share
        final = final_commits.get(share, committed)
        if final < committed:
            found.append(Anomaly(COMMIT_LOST, partition, f"{group}: {committed} was acknowledged, {final} is known"))
        promised = range(history.deleted.get(partition, 0), max(final, committed))
        unprocessed = [offset for offset in promised if offset not in history.processed[share]]
        if unprocessed:
            found.append(Anomaly(UNPROCESSED, partition, f"{group}: {len(unprocessed)} from {unprocessed[0]} on"))
    for ((group, partition), generation), members in history.owners.items():
        if len(members) > 1:
            found.append(Anomaly(TWO_OWNERS, partition, f"{group}, generation {generation}: {sorted(members)}"))
    return found
