"""QUERY_MESSAGE (12): messages by a key, or by their unique key; VIEW_MESSAGE_BY_ID (33): the one at a physical offset.

There is no index of keys: a query looks through the queues of its topic, within named bounds (`key_query`). What it has
not found by then is answered as not found, and the remark says how far it has looked.

The client needs READ of the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import check, may
from hutong.broker.rocketmq.cluster.elsewhere import check_led_here
from hutong.broker.rocketmq.key_query import KeyQuery, KeyQuestion
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.records.single import place_of, read_message
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import StoredMessage, encode_message

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext

QUERIES_MAX: Final = 4  # at a time, on a node
MESSAGES_MAX: Final = 64  # of one answer, as `defaultQueryMaxNum` and `maxMsgsNumBatch` of RocketMQ
KEY_CHARACTERS_MAX: Final = 1_024
_IS_UNIQUE: Final = "_UNIQUE_KEY_QUERY"
_FOREVER_MS: Final = 2**63 - 1


def handle_query(context: RocketContext) -> Answer:
    name, key = log_name(context.text("topic")), context.text("key")
    check(context.kafka(), Operation.READ, ResourceType.TOPIC, name)
    topic, parts = context.topic(name), context.parts
    if not 0 < len(key) <= KEY_CHARACTERS_MAX:
        raise RocketRefused(ResponseCode.INVALID_PARAMETER, f"A key has 1 to {KEY_CHARACTERS_MAX} characters.")
    owner, running = context.channel.owner, parts.queries_running
    # A read of a client that has gone may never come back.
    running[:] = [each for each in running if not each.has_ended]
    # A queue of them would only be looked through later than its clients wait.
    if len(running) >= QUERIES_MAX:
        raise LimitExceeded("QUERIES_MAX", QUERIES_MAX)
    asked = KeyQuestion(
        key,
        context.text(_IS_UNIQUE, "false") == "true",
        context.integer("beginTimestamp", 0),
        context.integer("endTimestamp", _FOREVER_MS),
        # Of a unique key as many are asked for, and one is there.
        min(max(1, context.integer("maxNum", MESSAGES_MAX)), MESSAGES_MAX),
    )
    pending: Pending[ReadyAnswer] = Pending()

    def ended(outcome: list[StoredMessage] | HutongError) -> None:
        # It is out already where its client has gone.
        if owner in running:
            running.remove(owner)
        if isinstance(outcome, HutongError):
            pending.complete(answer_of(outcome))
        else:
            pending.complete(_found(outcome, query))

    running.append(owner)
    query = KeyQuery(context, topic, asked, ended)
    query.run()
    return pending


def handle_view(context: RocketContext) -> Answer:
    physical, asked = context.integer("offset"), context.text("topic", "")
    broker = context.parts.broker
    # Clients of 4.9 name no topic. Topics are few next to messages, and administrators ask rarely.
    topics = [context.topic(log_name(asked))] if asked else broker.topics.newest_last()
    place = place_of(topics, physical)
    if place is None or not may(context.kafka(), Operation.READ, ResourceType.TOPIC, place[0].topic_name):
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical}")
    check_led_here(context, place[0])
    pending: Pending[ReadyAnswer] = Pending()

    def read(outcome: StoredMessage | HutongError) -> None:
        if isinstance(outcome, HutongError):
            pending.complete(answer_of(outcome))
        else:
            pending.complete(Command(ResponseCode.SUCCESS, body=encode_message(outcome)))

    try:
        read_message(*place, context.parts.identity.store_host, read)
    # Behind the end of the queue, or before its start.
    except Refused as refused:
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical}") from refused
    return pending


def _found(messages: list[StoredMessage], query: KeyQuery) -> Command:
    if not messages:
        text = "can not find message, maybe time range not correct"
        if query.has_given_up:
            text = f"{text}: looked at {query.looked_bytes} bytes, from the newest on; give a time range"
        fields = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
        return Command(ResponseCode.QUERY_NOT_FOUND, remark=text, fields=fields)
    newest = messages[0]
    fields = {
        "indexLastUpdateTimestamp": str(newest.stored_ms),
        "indexLastUpdatePhyoffset": str(newest.physical_offset),
    }
    return Command(ResponseCode.SUCCESS, fields=fields, body=b"".join(map(encode_message, messages)))
