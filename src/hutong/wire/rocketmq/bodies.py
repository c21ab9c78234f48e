"""JSON bodies of RocketMQ's requests and answers.

Names are RocketMQ's, as they are written. Unknown fields are ignored: each version of a client adds some. ProtocolError
is the only error that leaves a decoder.
"""

from typing import Final, TypeVar

import msgspec

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

BODY_BYTES_MAX: Final = 1 << 17  # of a heartbeat or a list of queues: a client of 1,000 topics has 80 KiB


class Body(msgspec.Struct, gc=False, omit_defaults=False):
    """The base of all bodies."""


# -- heartbeats


class SubscriptionData(Body):
    topic: str
    subString: str = "*"
    tagsSet: list[str] = []
    codeSet: list[int | str] = []  # texts from Go
    subVersion: int | str = 0
    expressionType: str | None = "TAG"
    classFilterMode: bool = False


class ConsumerData(Body):
    groupName: str
    consumeType: str = "CONSUME_PASSIVELY"
    messageModel: str = "CLUSTERING"
    consumeFromWhere: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptionDataSet: list[SubscriptionData] = []
    unitMode: bool = False


class ProducerData(Body):
    groupName: str


class HeartbeatData(Body):
    clientID: str
    producerDataSet: list[ProducerData] = []
    consumerDataSet: list[ConsumerData] = []


class CheckClientRequest(Body):
    clientId: str = ""
    group: str = ""
    subscriptionData: SubscriptionData | None = None


# -- routes


class QueueData(Body):
    brokerName: str
    readQueueNums: int
    writeQueueNums: int
    perm: int
    topicSysFlag: int = 0


class BrokerData(Body):
    cluster: str
    brokerName: str
    brokerAddrs: dict[int, str]  # 0 is the one that is written to


class TopicRouteData(Body):
    queueDatas: list[QueueData]
    brokerDatas: list[BrokerData]
    filterServerTable: dict[str, list[str]] = {}
    orderTopicConf: str | None = None


# -- queues


class RocketQueue(msgspec.Struct, frozen=True, gc=False):
    topic: str
    brokerName: str
    queueId: int


class LockBatchRequest(Body):
    consumerGroup: str
    clientId: str
    mqSet: list[RocketQueue] = []


class LockBatchResponse(Body):
    lockOKMQSet: list[RocketQueue]


class ConsumerList(Body):
    consumerIdList: list[str]


# -- queues that the broker shares out

PULL_MODE: Final = "PULL"
POP_MODE: Final = "POP"
BROADCASTING: Final = "BROADCASTING"


class AssignmentRequest(Body):
    topic: str
    consumerGroup: str
    clientId: str
    strategyName: str | None = None
    messageModel: str | None = None


class QueueAssignment(Body):
    messageQueue: RocketQueue
    mode: str = PULL_MODE
    attachments: dict[str, str] | None = None


class AssignmentResponse(Body):
    messageQueueAssignments: list[QueueAssignment]


class RequestModeRequest(Body):
    topic: str
    consumerGroup: str
    mode: str
    popShareQueueNum: int = 0


class BatchAck(Body):
    """Messages of one pop in one queue. `bits` are offsets behind the first: bytes with the lowest first, in base64."""

    consumerGroup: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")
    startOffset: int = msgspec.field(name="so")
    queueId: int = msgspec.field(name="q")
    reviveQueueId: int = msgspec.field(name="rq")
    bits: bytes | None = msgspec.field(name="b", default=None)


class BatchAckRequest(Body):
    acks: list[BatchAck] = []


BodyT = TypeVar("BodyT", bound=Body)
_decoders: Final[dict[type[Body], "msgspec.json.Decoder[Body]"]] = {}
_encoder: Final = msgspec.json.Encoder()


def decode_body(kind: type[BodyT], data: Buffer) -> BodyT:
    """The body of a request. Raises ProtocolError."""
    if len(data) > BODY_BYTES_MAX:
        raise ProtocolError(f"a body of {len(data)} bytes; {BODY_BYTES_MAX} are allowed")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(data)  # type: ignore[return-value]
    # Text that is no UTF-8, or too deep, has errors of Python's own.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the body is no {kind.__name__}: {error}") from None


def encode_body(body: Body) -> bytes:
    """Without spaces: the Go client looks for `"brokerAddrs":{` as text, and finds no route with them."""
    return _encoder.encode(body)
