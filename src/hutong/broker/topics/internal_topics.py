"""The topics that belong to the node: clients read and write none of them, or by their own APIs alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from hutong.foundation.errors import Refused
from hutong.security.principals import CLUSTER_NODE, Principal
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import HALF_TOPICS, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from hutong.broker.topics.partition import Partition

METADATA_TOPIC: Final = "__hutong_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
SHARE_TOPIC: Final = "__share_group_state"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
DELAYED_TOPIC: Final = "rmq_sys_wheel_timer"  # the queues of delayed records: RocketMQ's name

DELAY_TOPICS: Final = frozenset((DELAYED_TOPIC, SCHEDULE_TOPIC))
"""Topics whose records are delivered by the node: what is there must name its place."""

ONE_LEADER: Final = HALF_TOPICS | {DELAYED_TOPIC}
"""Topics that one node leads with all their partitions: what it has in memory is about all of them."""

MADE_BY_NODE: Final = HALF_TOPICS | DELAY_TOPICS
"""Topics that the node creates with the first record that needs them."""

INTERNAL_TOPICS: Final = frozenset((METADATA_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC)) | MADE_BY_NODE


def check_writable(partition: Partition, principal: Principal) -> None:
    """Check that this client may write to an internal partition. Raises Refused."""
    # A node's start trusts every record there. Delayed records come from all nodes.
    if principal != CLUSTER_NODE or partition.topic_name not in DELAY_TOPICS:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "Internal topics are written by the node alone.")


def check_maker(name: str, holder: str) -> None:
    """Check that this client may create a topic of this name, as far as the node has its own. Raises Refused."""
    # The node relies on its partitions and settings, and nobody could delete it.
    if name in MADE_BY_NODE and holder != str(CLUSTER_NODE):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' is the node's own, which creates it.")


class OwnTopic(NamedTuple):
    """A topic that the node creates for itself."""

    name: str
    partition_count: int
    overrides: Mapping[str, str] = MappingProxyType({})
