"""HEART_BEAT (34), UNREGISTER_CLIENT (35) and GET_CONSUMER_LIST_BY_GROUP (38): who is in which group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.handling.responses import PendingInParts
from hutong.broker.rights.authorization import check, may
from hutong.broker.rocketmq.records.names import retry_topic
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.foundation.errors import HutongError
from hutong.groups.rocketmq.clients import AboutClient
from hutong.groups.rocketmq_configs import rules_of
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.bodies import ConsumerData, ConsumerList, HeartbeatData, decode_body, encode_body
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import LANGUAGES, Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext


def handle_heartbeat(context: RocketContext) -> Answer:
    data, parts = decode_body(HeartbeatData, context.command.body), context.parts
    for consumer in data.consumerDataSet:
        check(context.kafka(), Operation.READ, ResourceType.GROUP, consumer.groupName)
    changed = parts.clients.heartbeat(context.number, data, parts.broker.clock.monotonic_ms(), _about(context))
    context.channel.attributes["user"] = str(context.principal)
    for group in changed:
        parts.notify_members(group)
    # A client asks for the route of its retry topic after this answer, and again after 30 s.
    pending: PendingInParts[ReadyAnswer] = PendingInParts(Command(ResponseCode.SUCCESS))
    for consumer in data.consumerDataSet:
        _create_retry_topic(context, consumer, pending)
    return pending.answer()


def handle_unregister(context: RocketContext) -> Answer:
    client_id, clients = context.text("clientID"), context.parts.clients
    for field in ("producerGroup", "consumerGroup"):
        group = context.text(field, "")
        # By its own connection alone: everybody can see the ids of others.
        if clients.connection_of(client_id, group) == context.number:
            for changed in clients.leave(client_id, group):
                context.parts.notify_members(changed)
    return Command(ResponseCode.SUCCESS)


def handle_list(context: RocketContext) -> Answer:
    name = context.text("consumerGroup")
    check(context.kafka(), Operation.DESCRIBE, ResourceType.GROUP, name)
    group = context.parts.clients.group(name)
    if group is None:
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return Command(ResponseCode.SUCCESS, body=encode_body(ConsumerList([*group.members])))


def _about(context: RocketContext) -> AboutClient:
    command, peer = context.command, context.channel.peer
    language = LANGUAGES[command.language] if 0 <= command.language < len(LANGUAGES) else "OTHER"
    return AboutClient(f"{peer.address}:{peer.port}", language, command.version)


def _create_retry_topic(context: RocketContext, consumer: ConsumerData, pending: PendingInParts[ReadyAnswer]) -> None:
    """Create the group's retry topic, to which its clients subscribe before the first message failed."""
    broker = context.parts.broker
    if consumer.messageModel == "BROADCASTING" or not broker.settings.auto_create_topics:
        return
    asked = context.kafka()
    pending.expect_part()
    try:
        name = retry_topic(consumer.groupName)
        if broker.topics.get(name) is None and may(asked, Operation.CREATE, ResourceType.TOPIC, name):
            queues = max(1, rules_of(broker.group_configs, consumer.groupName).retry_queues)
            broker.topic_creation.get_or_create(asked, name, queues, lambda _outcome: pending.settle_part())
        else:
            pending.settle_part()
    # A group whose name no topic can have gets on without retries, and so does one for whose topic there is no room.
    except HutongError:
        pending.settle_part()
