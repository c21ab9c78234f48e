"""The promises of replicas, from the insides of nodes: one leader in an epoch, and the same records everywhere.

Strategy: leaders are looked at with every look at the insides. The logs of all nodes are read once everything is at
rest, as their journals show them: what a node does not show is not committed as far as it knows. A group has replicas
on some nodes, and the newest state that any node knows says on which: the others show nothing. Each node removes old
records by itself, and compacts by itself, so only what two nodes both have may be compared there.
"""

import asyncio
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Final

from hutong.broker.topics.lifetimes import COMPACTED_GROUP, is_state_group, lifetime_of
from hutong.broker.topics.partition import Partition
from hutong.foundation.waiting.pending import settle_future
from hutong.journal.log import PartitionLog
from hutong.journal.read.runs import Views
from hutong.replication.driver import GroupReplica
from hutong.replication.group_state import PartitionGroupState
from hutong.wire.kafka.batch.records import Record, iterate_batches, iterate_records

_READ_BYTES: Final = 1 << 20
LogKey = tuple[str, str]
"""A partition group, and a partition in it."""


@dataclass(frozen=True, slots=True)
class LogContent:
    """The visible records of a log on one node: by offset, a check sum of each."""

    start: int
    end: int
    records: Mapping[int, int]


class LeaderWatch:
    """The leaders that were seen in one simulation, by group and epoch."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, int], str] = {}

    def look(self, process: str, replicas: Mapping[str, GroupReplica]) -> Iterator[str]:
        """Note which groups a process leads; yields a sentence where another one leads in the same epoch."""
        for group, replica in replicas.items():
            if not replica.is_leading or replica.state is None:
                continue
            key = (group, replica.state.epoch)
            first = self._leaders.setdefault(key, process)
            if first != process:
                yield f"{first} and {process} both lead the group {group} in epoch {key[1]}"


async def read_logs(partitions: Iterable[Partition]) -> dict[LogKey, LogContent]:
    """All that a node shows of its partitions. Runs on the node's loop."""
    return {(each.group, f"{each.topic_name}-{each.index}"): await _content(each.log) for each in [*partitions]}


def holders(replicas: Iterable[GroupReplica]) -> dict[str, tuple[int, ...]]:
    """The nodes that keep each group, by the newest of all states that nodes know."""
    newest: dict[str, PartitionGroupState] = {}
    for state in (each.state for each in replicas):
        if state is None:
            continue
        known = newest.setdefault(state.name, state)
        if (state.epoch, state.version) > (known.epoch, known.version):
            newest[state.name] = state
    return {name: state.replicas for name, state in newest.items()}


def differences(
    contents: Mapping[int, Mapping[LogKey, LogContent]], kept_by: Mapping[str, Sequence[int]]
) -> Iterator[str]:
    """The partitions that are not the same on all nodes that keep their group, by the nodes' numbers."""
    keys: dict[LogKey, None] = dict.fromkeys(key for logs in contents.values() for key in logs)
    for key in keys:
        for one, other in combinations(sorted(kept_by.get(key[0], contents)), 2):
            problem = _difference(key, contents[one].get(key), contents[other].get(key))
            if problem is not None:
                yield f"node-{one} and node-{other} differ in {key[1]} of the group {key[0]}: {problem}"
                break


def _difference(key: LogKey, one: LogContent | None, other: LogContent | None) -> str | None:
    if one is None or other is None:
        return None if one is other else "only one has it"
    if one.end != other.end:
        return f"one ends at {one.end}, the other at {other.end}"
    both = one.records.keys() & other.records.keys()
    changed = sorted(offset for offset in both if one.records[offset] != other.records[offset])
    if changed:
        return f"they have other records at {changed[0]}"
    if _is_compacted(key[0]):
        return None
    start = max(one.start, other.start)
    missing = sorted(offset for offset in one.records.keys() ^ other.records.keys() if offset >= start)
    return f"only one has a record at {missing[0]}" if missing else None


def _is_compacted(group: str) -> bool:
    return is_state_group(group) or lifetime_of(group) == COMPACTED_GROUP


async def _content(log: PartitionLog) -> LogContent:
    start, end, records, offset = log.start_offset, log.high_watermark, {}, log.start_offset
    while offset < end:
        views = await _views(log, offset)
        if not views:
            break
        for view in views:
            for header, batch in iterate_batches(view):
                for record in iterate_records(batch):
                    records[record.offset] = _sum_of(record)
                offset = max(offset, header.last_offset + 1)
    return LogContent(start, end, records)


async def _views(log: PartitionLog, offset: int) -> list[memoryview]:
    found = log.read(offset, _READ_BYTES)
    if isinstance(found, Views):
        return found.buffers
    future: asyncio.Future[list[memoryview]] = asyncio.get_running_loop().create_future()
    log.read_from_disk(found, partial(settle_future, future))
    return await future


def _sum_of(record: Record) -> int:
    return zlib.crc32(repr((record.timestamp_ms, record.key, record.value, record.headers)).encode())
