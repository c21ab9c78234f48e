"""The topics that belong to the node: clients read and write none of them, or by their own APIs alone."""

from typing import Final

from hutong.wire.rocketmq.codes import HALF_TOPICS

METADATA_TOPIC: Final = "__hutong_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
SHARE_TOPIC: Final = "__share_group_state"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
DELAYED_TOPIC: Final = "rmq_sys_wheel_timer"  # the queues of delayed records: RocketMQ's name
INTERNAL_TOPICS: Final = frozenset((METADATA_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC)) | HALF_TOPICS
