"""Which topics a consumer says it reads: the one look into metadata that is otherwise opaque.

The layout is the consumer protocol's (Kafka's `ConsumerProtocolSubscription`): version int16, then an array of topic
names; later versions only append. What is not laid out like that belongs to some other kind of member.
"""

import struct
from collections.abc import Iterable
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_PREFIX: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that these members read, or None if one of them cannot be understood."""
    topics: set[str] = set()
    for subscription in subscriptions:
        named = _topics_in(subscription)
        if named is None:
            return None
        topics.update(named)
    return frozenset(topics)


def _topics_in(subscription: bytes) -> list[str] | None:
    try:
        _, count = _PREFIX.unpack_from(subscription)
        position = _PREFIX.size
        topics = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(subscription, position)
            position += _LENGTH.size
            end = position + length
            if length < 0 or end > len(subscription):
                return None
            topics.append(subscription[position:end].decode())
            position = end
    except (struct.error, UnicodeDecodeError):
        return None
    return topics
