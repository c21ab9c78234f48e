"""One read of the topic `_schemas` at the node that leads it: Kafka's Fetch, in this node's name.

For what this node's own log does not have: it may have none, or a moment later.

Decides nothing.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.coordinators.other_nodes import ask_kafka
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation, settle_future
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.topics.partition import Partition
    from hutong.registry.replay import SchemaReplay

READ_BYTES: Final = 1024 * 1024
_VERSION: Final = 12
_COMMITTED: Final = 1


async def fetched(
    cluster: "ClusterView", partition: "Partition", replay: "SchemaReplay", timeout_ms: int
) -> PartitionData | None:
    """Read what the leader has from the replay's offset on; None where its log is not the one that was replayed.

    It is asked again until the time is over. Raises HutongError where nobody answers.
    """
    done: asyncio.Future[PartitionData] = asyncio.get_running_loop().create_future()
    attempt = partial(_fetch, cluster, partition, replay.next_offset, replay.last_epoch)
    cluster.ask_again(attempt, _may_repeat, timeout_ms, partial(settle_future, done))
    try:
        data = await done
    except Refused as refused:
        if refused.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        raise
    # KIP-595: an unclean leader lacks records that were read.
    return data if data.diverging_epoch.epoch < 0 else None


def _may_repeat(error: HutongError) -> bool:
    return not (isinstance(error, Refused) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE)


def _fetch(
    cluster: "ClusterView", partition: "Partition", offset: int, last_epoch: int, then: Continuation[PartitionData]
) -> None:
    leader = partition.standing.leader
    if leader == NO_LEADER:
        then(Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"Nobody leads {partition.topic_name} at this moment."))
        return
    # With the epoch, a node that leads no more refuses, also where it follows and may be read.
    asked = FetchPartition(
        partition.index,
        current_leader_epoch=partition.standing.leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=READ_BYTES,
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=READ_BYTES,
        isolation_level=_COMMITTED,
        topics=[FetchTopic(partition.topic_name, partitions=[asked])],
    )

    def answered(outcome: FetchResponse | HutongError) -> None:
        if isinstance(outcome, HutongError):
            then(outcome)
            return
        data = outcome.responses[0].partitions[0]
        then(Refused(data.error_code) if data.error_code != ErrorCode.NONE else data)

    ask_kafka(cluster, leader, request, _VERSION, answered)
