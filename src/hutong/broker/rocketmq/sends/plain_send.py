"""The test of a request to send for being plain, and its record: the same in Python as `_plain_send.c` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hutong.broker.rocketmq.records.packing import record_tail
from hutong.broker.rocketmq.records.translation import origin
from hutong.foundation.errors import ProtocolError
from hutong.wire.rocketmq.codes import (
    DELAY_LEVEL,
    PREPARED,
    REPLY_TO_CLIENT,
    START_DELIVER_MS,
    WAITS_FOR_STORE,
    RequestCode,
)
from hutong.wire.rocketmq.messages import NAME_END, VALUE_END

if TYPE_CHECKING:
    from hutong.wire.rocketmq.command import Command
    from hutong.wire.rocketmq.messages import Host

BODY_BYTES_MAX: Final = 16 * 1024  # above it copies outweigh what the short way saves
PROPERTIES_MAX: Final = 8_000  # characters: the bytes of any text of this length fit a message
_TOPIC, _QUEUE, _FLAGS, _BORN, _FLAG, _PROPERTIES, _TIMES, _BATCH = range(8)
_NAMES: Final = {
    RequestCode.SEND_MESSAGE_V2: ("b", "e", "f", "g", "h", "i", "j", "m"),
    RequestCode.SEND_MESSAGE: (
        "topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes", "batch",
    ),
}  # fmt: skip
_MARKS: Final = (
    # What is in the text of each property that wants more than to be stored.
    DELAY_LEVEL,
    "TIMER_DEL",
    START_DELIVER_MS,
    PREPARED,
    REPLY_TO_CLIENT,
    f"{WAITS_FOR_STORE}{NAME_END}false{VALUE_END}",
)


class PlainSend(NamedTuple):
    """A message that only wants to be stored."""

    place: bytes  # the topic, a zero, and the digits of the queue
    tail: bytes  # of its record


def plain_send(command: Command, born_host: Host) -> PlainSend | None:
    """The message of a plain request, of a client at this address; None for any other request."""
    names = _NAMES.get(command.code)  # type: ignore[call-overload]  # any number may come
    if names is None or command.is_oneway or len(command.body) > BODY_BYTES_MAX:
        return None
    try:
        get = command.ext().get
    except ProtocolError:
        return None
    properties, born, flag = get(names[_PROPERTIES], ""), get(names[_BORN], ""), get(names[_FLAG], "0")
    queue_id = get(names[_QUEUE], "")
    is_plain = (
        get(names[_FLAGS]) == "0"
        and get(names[_TIMES], "0") == "0"
        and get(names[_BATCH], "false") == "false"
        and _is_small(queue_id, 9)
        and _is_small(born, 18)
        and _is_small(flag, 9)
        and len(properties) <= PROPERTIES_MAX
        and not _wants_more(properties)
    )
    if not is_plain:
        return None
    packed_origin = origin(int(flag), 0, int(born), 0, born_host)
    tail = record_tail(properties.encode(), command.body, packed_origin)
    return PlainSend(f"{get(names[_TOPIC], '')}\0{queue_id}".encode(), tail)


def _wants_more(properties: str) -> bool:
    """True if a message has one of the marked properties, or their text in another one."""
    for mark in _MARKS:  # noqa: SIM110  # `any` with a generator takes three times as long as six searches
        if mark in properties:
            return True
    return False


def _is_small(text: str, digits_max: int) -> bool:
    """Return True for digits alone, few enough that any number of this length fits."""
    return text.isdigit() and text.isascii() and len(text) <= digits_max
