"""SEND_REPLY_MESSAGE (324) and SEND_REPLY_MESSAGE_V2 (325): the answer to a request that a message was.

The node pushes it to the client that has asked (PUSH_REPLY_MESSAGE_TO_CLIENT, 326), which a property names, and stores
it in the topic of replies, as RocketMQ does by default. The one who replies hears an error if it was not taken: the
client has left, or does not answer in time. A reply is pushed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.broker.rocketmq.requests import r310_send
from hutong.broker.rocketmq.requests.send_fields import SendFields
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.remoting.errors import RemotingError
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.codes import PUSH_REPLY_TIME, REPLY_TO_CLIENT, RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import decode_properties, encode_properties

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext

PUSH_MS: Final = 3_000  # RocketMQ waits 10 s; who replies waits 3 s by default


def handle(context: RocketContext) -> Answer:
    reply = PushedReply(context)
    check(context.kafka(), Operation.WRITE, ResourceType.TOPIC, reply.name)
    reply.begin()
    return reply.pending


class PushedReply:
    """One reply: pushed, then stored."""

    def __init__(self, context: RocketContext) -> None:
        self._context = context
        self._fields = SendFields(context)
        if self._fields.text("batch", "false") == "true":
            raise RocketRefused(ResponseCode.MESSAGE_ILLEGAL, "A reply is one message.")
        self._properties = decode_properties(self._fields.text("properties", ""))
        self.name = r310_send.SendRequest(context).name
        self.pending: Pending[ReadyAnswer] = Pending()

    def begin(self) -> None:
        """Push the reply, and store it then. Raises RocketRefused, Refused, LedElsewhere."""
        topic = self._context.parts.broker.topics.get(self.name)
        # The leader of its queue does both: the clients that ask are connected to every node.
        if topic is not None:
            self._context.partition(self.name, max(0, self._fields.integer("queueId", 0)) % len(topic.partitions))
        client_id = self._properties.get(REPLY_TO_CLIENT, "")
        number = self._context.parts.clients.producer_connection(client_id)
        channel = None if number is None else self._context.parts.channel_of(number)
        if channel is None:
            self._store(f"push reply message fail, channel of <{client_id:.200}> not found.")
            return

        def pushed(outcome: Command | HutongError) -> None:
            is_taken = isinstance(outcome, Command) and outcome.code == ResponseCode.SUCCESS
            self._store("" if is_taken else f"push reply message to {client_id:.200} fail.")

        try:
            channel.invoke_then(self._push(), PUSH_MS, pushed)
        # It does not read, or has too many questions unanswered.
        except RemotingError:
            self._store(f"push reply message to {client_id:.200} fail.")

    def _push(self) -> Command:
        """The request to the client. Raises RocketRefused."""
        context, fields, identity = self._context, self._fields, self._context.parts.identity
        now_ms = context.parts.broker.clock.wall_ms()
        properties = encode_properties({**self._properties, PUSH_REPLY_TIME: str(now_ms)})
        peer = context.channel.peer
        names: dict[str, object] = {
            "producerGroup": fields.text("producerGroup"),
            "topic": fields.text("topic"),
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": fields.integer("defaultTopicQueueNums", 4, bits=32),
            "queueId": fields.integer("queueId", 0, bits=32),
            # With the body as it came: a client unpacks what another one has packed.
            "sysFlag": fields.integer("sysFlag", 0, bits=32),
            "bornTimestamp": fields.integer("bornTimestamp", now_ms),
            "flag": fields.integer("flag", 0, bits=32),
            "properties": properties,
            "reconsumeTimes": fields.integer("reconsumeTimes", 0, bits=32),
            "unitMode": "false",
            "bornHost": f"{peer.address}:{peer.port}",
            "storeHost": f"{identity.host}:{identity.port}",
            "storeTimestamp": now_ms,
        }
        texts = {name: str(value) for name, value in names.items()}
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        return Command(code, fields=texts, body=bytes(context.command.body))

    def _store(self, failure: str) -> None:
        """Store the reply, and answer; `failure` is why nobody has it, empty if the client has."""

        def stored(answer: ReadyAnswer) -> None:
            self.pending.complete(refusal(ResponseCode.SYSTEM_ERROR, failure) if failure else answer)

        try:
            answer = r310_send.handle(self._context)
        # Only now, since the push has gone on meanwhile: there is nobody else who answers for it.
        except HutongError as error:
            answer = answer_of(error)
        if isinstance(answer, Pending):
            answer.then(stored)
        else:
            stored(answer)
