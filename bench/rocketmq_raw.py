"""RocketMQ's frames over plain sockets: sends and pulls as its Java client makes them, encoded ahead.

Strategy: the processor time of a node is to be measured, so the client's own work is little: it repeats frames that
differ in their number and queue alone, and looks at an answer's code, but reads none. Every answer is checked: a
refused request is fast.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from bench.raw_client import BrokerError, RawConnection, connect
from hutong.wire.rocketmq.codes import PULL_WAITS, RequestCode, ResponseCode
from hutong.wire.rocketmq.command import BINARY, Command, decode, encode
from hutong.wire.rocketmq.messages import decode_messages

QUEUES: Final = 4
PULLED_MAX: Final = 32  # as clients ask for
FRAMES: Final = 256  # that are repeated; more than are ever unanswered
_READ_BYTES: Final = 256 * 1024
_LENGTH: Final = struct.Struct(">I")
_CODE: Final = struct.Struct(">h")
_CODE_AT: Final = 8  # of a frame with a binary header, behind its length and mark
_PROPERTIES: Final = "UNIQ_KEY\x017F0000010A2B3C4D5E6F708192A3B4C5\x02KEYS\x01order-48151623\x02WAIT\x01true\x02"
_GROUP: Final = "bench"
_TEMPLATE: Final = "TBW102"  # the topic of whose route new topics are made


def send_frames(topic: str, body: bytes, form: int, *, queues: int = QUEUES, count: int = FRAMES) -> list[bytes]:
    """Frames of SEND_MESSAGE_V2, by turns for each queue of the topic."""
    return [b"".join(encode(_send(topic, body, number, number % queues, form))) for number in range(count)]


def _send(topic: str, body: bytes, number: int, queue: int, form: int) -> Command:
    values = {
        "a": _GROUP,
        "b": topic,
        "c": _TEMPLATE,
        "d": str(QUEUES),
        "e": str(queue),
        "f": "0",
        "g": "1764288000000",
        "h": "0",
        "i": _PROPERTIES,
        "j": "0",
        "k": "false",
        "l": "0",
        "m": "false",
        "n": "hutong",
    }
    return Command(RequestCode.SEND_MESSAGE_V2, number, body=body, fields=values, serialization=form)


def send_messages(connection: RawConnection, frames: Sequence[bytes], count: int, window: int) -> None:
    """Send `count` messages, `window` unanswered at a time. Raises BrokerError for one that is refused."""
    sent = answered = 0
    rest = b""
    while answered < count:
        more = min(window - (sent - answered), count - sent)
        if more:
            connection.send(b"".join([frames[number % len(frames)] for number in range(sent, sent + more)]))
            sent += more
        rest += connection.socket.recv(_READ_BYTES)
        done, rest = _check_answers(rest)
        answered += done


def _check_answers(data: bytes) -> tuple[int, bytes]:
    """The number of whole answers, and what follows them."""
    at = done = 0
    while len(data) - at >= _LENGTH.size:
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            break
        is_binary = data[at + _LENGTH.size] == BINARY
        is_right = _CODE.unpack_from(data, at + _CODE_AT)[0] == 0 if is_binary else b'"code":0,' in data[at:end]
        if not is_right:
            raise BrokerError(f"a send was refused: {data[at:end]!r}")
        at, done = end, done + 1
    return done, data[at:]


def call(connection: RawConnection, command: Command) -> Command:
    """Ask, and wait for the answer. What the node asks meanwhile, such as to share out queues, is left unread."""
    connection.send(b"".join(encode(command)))
    while True:
        answer = decode(connection.receive()[_LENGTH.size :])
        if answer.is_response:
            return answer


def heartbeat(connection: RawConnection, group: str, topic: str, tags: str = "*") -> None:
    """Join a consumer group, which subscribes to the topic."""
    subscription = {"topic": topic, "subString": tags, "expressionType": "TAG", "tagsSet": [], "codeSet": []}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    body = {"clientID": f"{group}@1", "producerDataSet": [], "consumerDataSet": [consumer]}
    answer = call(connection, Command(RequestCode.HEART_BEAT, body=json.dumps(body).encode()))
    if answer.code:
        raise BrokerError(f"a heartbeat was refused: {answer.remark}")


def pull_queue(
    connection: RawConnection, group: str, topic: str, queue: int, wait_ms: int = 0, from_offset: int = 0
) -> Iterator[bytes]:
    """Pull a queue from an offset on: the stored messages of each answer.

    Ends with the queue's end, or waits there for so long by each pull, for ever.
    """
    offset, flags = from_offset, PULL_WAITS if wait_ms else 0
    while True:
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue),
            "queueOffset": str(offset),
            "maxMsgNums": str(PULLED_MAX),
            "sysFlag": str(flags),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(wait_ms),
            "subVersion": "0",
            "bname": "hutong",
        }
        answer = call(connection, Command(RequestCode.PULL_MESSAGE, fields=fields))
        if answer.code == ResponseCode.PULL_NOT_FOUND and not wait_ms:
            return
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            raise BrokerError(f"a pull was refused: {answer.code} {answer.remark}")
        offset = int(answer.ext()["nextBeginOffset"])
        yield bytes(answer.body)


def count_messages(body: bytes) -> int:
    """The number of stored messages in the body of a pull's answer."""
    at = count = 0
    while at < len(body):
        at += _LENGTH.unpack_from(body, at)[0]
        count += 1
    return count


def stored_bodies(data: bytes) -> list[bytes]:
    """The bodies of stored messages."""
    return [bytes(message.body) for message in decode_messages(data)]


def broker_of(name_server: str) -> str:
    """The address of the broker that takes messages to new topics, by its name server."""
    with connect(name_server) as connection:
        answer = call(connection, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": _TEMPLATE}))
    if answer.code:
        raise BrokerError(f"no route at {name_server}: {answer.remark}")
    address: str = json.loads(bytes(answer.body))["brokerDatas"][0]["brokerAddrs"]["0"]
    return address
