"""Durable addresses: `topic:NAME` is a topic of a log that Kafka clients share.

`EventBus(runtime, log=KafkaLog("HOST:PORT"))`, with KafkaLog from `hutong.bus.durable.kafka`: it alone needs the
client.
"""

from hutong.bus.durable.consume.retry import Order, Retry
from hutong.bus.durable.message import DurableMessage
from hutong.bus.durable.outcomes import ConsumerStopped, PublishFailed, Stored

__all__ = ["ConsumerStopped", "DurableMessage", "Order", "PublishFailed", "Retry", "Stored"]
