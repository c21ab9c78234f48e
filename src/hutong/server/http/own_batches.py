"""Headers of batches in the journals of this node, for its console.

Strategy: a read is small and brings several batches; a larger batch comes whole, since the journal checks it whole.
What the cache holds is looked at in place.

Decides nothing about rights: the user has read these records already.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.topics.group_standing import NO_LEADER
from hutong.console.records.batches import BatchSearch, SeenBatch, SeenBatches
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import settle_future
from hutong.journal.log import DiskRead
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import iterate_batches
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.broker.broker import Broker
    from hutong.broker.topics.partition import Partition
    from hutong.wire.kafka.batch.records import BatchHeader

READS_MAX: Final = 64
"""Of one question, in all partitions together."""
READ_BYTES: Final = 64 * 1024
DISK_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one question, and one batch more."""
_TOO_MANY: Final = "The batches of this page are too large or too many: it shows those of the first records."
_UNDEFINED: Final = "unknown"


async def own_batches(broker: Broker, topic: str, offsets: Mapping[int, Sequence[int]]) -> SeenBatches:
    """The batches that hold these offsets of partitions, as far as this node has them."""
    seen = SeenBatches()
    known = broker.topics.get(topic)
    reads_left = READS_MAX
    for index, wanted in offsets.items():
        partition = None if known is None else known.partition(index)
        if partition is None:
            seen.miss("The topic was deleted.")
            continue
        reads_left -= await _look(partition, wanted, seen, reads_left)
    return seen


async def _look(partition: Partition, offsets: Sequence[int], seen: SeenBatches, reads_max: int) -> int:
    """Add the batches of one partition. Returns the number of reads."""
    if not (partition.standing.is_led_here or partition.standing.is_followed_here):
        seen.miss(_elsewhere(partition))
        return 0
    search, reads = BatchSearch(offsets), 0
    while (offset := search.next_offset) is not None:
        if reads >= reads_max or seen.read_bytes >= DISK_BYTES_MAX:
            seen.miss(_TOO_MANY)
            break
        reads += 1
        try:
            partition.check_online()
            search.receive(await _headers(partition, offset, seen))
        except HutongError as error:
            # Deleted since the page was read, like what cleaning has taken.
            if isinstance(error, Refused) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                search.receive([])
                continue
            seen.miss(f"Partition {partition.index} could not be read: {error}")
            break
    seen.batches += [_seen(partition.index, header) for header in search.found]
    return reads


async def _headers(partition: Partition, offset: int, seen: SeenBatches) -> list[BatchHeader]:
    """The headers of the batches from an offset on. Raises HutongError."""
    found = partition.log.read(offset, READ_BYTES)
    if isinstance(found, DiskRead):
        read: asyncio.Future[list[memoryview]] = asyncio.get_running_loop().create_future()
        partition.log.read_from_disk(found, partial(settle_future, read))
        buffers = await read
        seen.read_bytes += sum(map(len, buffers))
    else:
        buffers = found.buffers
    return [header for buffer in buffers for header, _ in iterate_batches(buffer)]


def _seen(partition: int, header: BatchHeader) -> SeenBatch:
    number = header.compression
    return SeenBatch(
        partition,
        header.base_offset,
        header.last_offset,
        # Batches of other nodes were checked there: a number of a later version is shown as what it is.
        Compression(number).name.lower() if number <= Compression.ZSTD else _UNDEFINED,
        header.size,
        header.record_count,
        header.is_transactional,
    )


def _elsewhere(partition: Partition) -> str:
    leader = partition.leader
    if leader == NO_LEADER:
        return f"Partition {partition.index} has no leader now, and this node has no copy of it."
    return f"This node has no copy of partition {partition.index}: the console of node {leader} shows its batches."
