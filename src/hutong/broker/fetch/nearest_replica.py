"""The replica that is nearest to a consumer: a follower in its rack, where the leader is in another one (KIP-392).

Strategy: the leader names a follower which is in sync, so that it has all that consumers can see. The follower serves
what it knows to be committed. It may know that a moment later than the leader, and its readers then wait for it.

There is no setting as Kafka's `replica.selector.class`: racks of nodes turn it on. Knows nothing of reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.fetch.parts import FetchParts
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.topics.partition import Partition


def nearest_follower(partition: Partition, offset: int, rack: str, context: RequestContext[FetchParts]) -> int | None:
    """The follower in this rack for reads from `offset` on, None if there is none or this node is as near."""
    log, standing, own = partition.log, partition.standing, context.broker.identity.node_id
    # Of QoS `receive` consumers see what followers do not have yet.
    if log.receive_qos or not log.start_offset <= offset <= log.high_watermark:
        return None
    there = {node.node_id for node in context.broker.cluster.nodes(context.listener) if node.rack == rack}
    if own in there:
        return None
    return next((node for node in standing.replicas if node in there and node in standing.in_sync), None)


def check_held(partition: Partition, offset: int) -> None:
    """Raise Refused(OFFSET_NOT_AVAILABLE) for an offset that this follower cannot know: the client asks the leader.

    OFFSET_OUT_OF_RANGE, as Kafka answers here, lets some clients reset their position.
    """
    if offset > partition.log.end_offset:
        raise Refused(ErrorCode.OFFSET_NOT_AVAILABLE, "This follower does not have the offset yet.")
