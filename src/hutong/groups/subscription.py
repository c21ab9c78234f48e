"""The topics in members' subscriptions: the only reader of metadata that is otherwise opaque."""

from collections.abc import Iterable
from typing import Final

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.consumer_protocol import decode_subscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that these members read, or None if one of them cannot be understood."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(decode_subscription(subscription).topics)
    except ProtocolError:
        return None
    return frozenset(topics)
