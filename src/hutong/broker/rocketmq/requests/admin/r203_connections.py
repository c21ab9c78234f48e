"""Connected clients: GET_CONSUMER_CONNECTION_LIST (203), GET_PRODUCER_CONNECTION_LIST (204), and single clients.

GET_ALL_PRODUCER_INFO (328) lists all producers. GET_CONSUMER_RUNNING_INFO (307) is asked of a client, and its answer
is passed on. The client needs DESCRIBE of the consumer group, and for producers of the cluster: their groups are only
names, which no ACL is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import check, check_cluster
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.admin_bodies import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from hutong.wire.rocketmq.bodies import encode_body
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.groups.rocketmq.clients import GroupMember

CLIENT_ANSWER_MS: Final = 10_000  # as RocketMQ's broker gives its client for that


def handle_consumers(context: RocketContext) -> Answer:
    name = context.text("consumerGroup")
    check(context.kafka(), Operation.DESCRIBE, ResourceType.GROUP, name)
    group = context.parts.clients.group(name)
    if group is None:
        raise RocketRefused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name:.127}] not online")
    model = "BROADCASTING" if group.is_broadcasting else "CLUSTERING"
    body = ConsumerConnection(
        _connections(group.members.values()), group.subscriptions, group.consume_type, model, group.consume_from
    )
    return Command(ResponseCode.SUCCESS, body=encode_body(body))


def handle_producers(context: RocketContext) -> Answer:
    check_cluster(context.kafka(), Operation.DESCRIBE)
    name = context.text("producerGroup")
    members = context.parts.clients.producers(name)
    if not members:
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name:.127}] not exist")
    return Command(ResponseCode.SUCCESS, body=encode_body(ProducerConnection(_connections(members))))


def handle_all_producers(context: RocketContext) -> Answer:
    check_cluster(context.kafka(), Operation.DESCRIBE)
    clients, clock = context.parts.clients, context.parts.broker.clock
    # Heartbeats are noted by a clock that no administrator reads.
    offset_ms = clock.wall_ms() - clock.monotonic_ms()
    table = {
        group: [
            ProducerInfo(
                member.client_id,
                f"/{member.about.address}",
                member.about.language,
                member.about.version,
                member.seen_ms + offset_ms,
            )
            for member in clients.producers(group)
        ]
        for group in clients.producer_groups()
    }
    return Command(ResponseCode.SUCCESS, body=encode_body(ProducerTable(table)))


def handle_running(context: RocketContext) -> Answer:
    name, client_id = context.text("consumerGroup"), context.text("clientId")
    check(context.kafka(), Operation.DESCRIBE, ResourceType.GROUP, name)
    group = context.parts.clients.group(name)
    member = group.members.get(client_id) if group is not None else None
    channel = context.parts.channel_of(member.connection) if member is not None else None
    if channel is None:
        text = f"The Consumer <{name:.127}> <{client_id:.127}> not online"
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, text)
    fields = {
        "consumerGroup": name,
        "clientId": client_id,
        "jstackEnable": context.text("jstackEnable", "false"),
    }
    pending: Pending[ReadyAnswer] = Pending()

    def told(outcome: Command | HutongError) -> None:
        if isinstance(outcome, HutongError):
            pending.complete(answer_of(outcome))
        else:
            # Without its fields: the client's own names for things are not the node's answer.
            pending.complete(Command(outcome.code, remark=outcome.remark, body=outcome.body))

    channel.invoke_then(Command(RequestCode.GET_CONSUMER_RUNNING_INFO, fields=fields), CLIENT_ANSWER_MS, told)
    return pending


def _connections(members: Iterable[GroupMember]) -> list[ClientConnection]:
    return [
        ClientConnection(member.client_id, member.about.address, member.about.language, member.about.version)
        for member in members
    ]
