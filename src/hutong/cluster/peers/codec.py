"""Replica messages as command frames, and back.

Strategy: one binary header as the ext block: all integers (64 bits), then each text behind its length in one byte. The
content of chunks is the body: it is sent as it is, and received as a view of its frame. The form of a message follows
from its fields, which are `int`, `str` or `Buffer` (one at most). So a new message is one row of `_MESSAGES`.
ProtocolError is the only error that leaves a decoder.

Knows nothing of connections.
"""

import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, Final, get_args, get_type_hints

from msgspec import Struct

from hutong.foundation.errors import ProtocolError
from hutong.replication import replica_messages as messages
from hutong.replication.replica_messages import ReplicaMessage
from hutong.wire.buffer import Buffer
from hutong.wire.rocketmq.command import IS_ONEWAY, Command, encode_binary

MESSAGE_CODE_MIN: Final = 0x5001
MESSAGE_CODE_MAX: Final = 0x5FFF
GROUP_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")
INTEGER_MIN: Final = -1
"""Of every integer: positions, epochs and numbers begin at 0, and -1 means none."""
TEXT_BYTES_MAX: Final = 255
TEXTS_KEPT: Final = 1_024  # encoded and decoded names of groups
COPIED_BYTES_MAX: Final = 4 * 1024  # of a body for which one copy costs less than a second buffer

_MESSAGES: Final[Mapping[int, type[Struct]]] = {
    # The code of a message is never given to another one.
    0x5001: messages.AskedToJoin,
    0x5002: messages.JoinAnswered,
    0x5003: messages.DivergenceTold,
    0x5004: messages.ChunksShipped,
    0x5005: messages.CommitTold,
    0x5006: messages.ChunksAcknowledged,
    0x5007: messages.EpochRefused,
    0x5008: messages.FilesOffered,
    0x5009: messages.FilesAsked,
    0x500A: messages.FilesListed,
    0x500B: messages.FilePartAsked,
    0x500C: messages.FilePartShipped,
}
_LENGTH: Final = struct.Struct(">I")


def encode_message(message: ReplicaMessage) -> Command:
    """The command of a message. Raises ValueError for what no message may have: a name of a group, or a number."""
    form = _FORMS_BY_KIND[message.__class__]
    return Command(form.code, flag=IS_ONEWAY, ext_block=form.header(message), body=form.body(message))


def decode_message(command: Command) -> ReplicaMessage:
    """The message of a command. Raises ProtocolError."""
    form = _FORMS_BY_CODE.get(command.code)
    if form is None:
        raise ProtocolError(f"no message between replicas has code {command.code}")
    return form.message(command.ext_block or b"", command.body)


def frame_message(message: ReplicaMessage, frame_bytes_max: int) -> list[Buffer]:
    """The whole frame of a message, whose large body is not copied. Raises ValueError for one that is too large."""
    form = _FORMS_BY_KIND[message.__class__]
    body = form.body(message)
    if len(body) <= COPIED_BYTES_MAX:
        return [encode_binary(form.code, 0, IS_ONEWAY, form.header(message), body)]
    head = bytearray(encode_binary(form.code, 0, IS_ONEWAY, form.header(message)))
    length = len(head) - _LENGTH.size + len(body)
    # The encoder of commands has the bound of RocketMQ, 16 MiB; a single batch may be larger than that.
    if length > frame_bytes_max:
        raise ValueError(f"a frame of {length} bytes; {frame_bytes_max} are allowed")
    _LENGTH.pack_into(head, 0, length)
    return [bytes(head), body]


class _MessageForm:
    """The binary form of one kind of message."""

    def __init__(self, code: int, kind: type[Struct]) -> None:
        hints = get_type_hints(kind)
        names = list(kind.__struct_fields__)
        integers = [name for name in names if hints[name] is int]
        self._texts = [name for name in names if hints[name] is str]
        bodies = [name for name in names if set(get_args(hints[name])) == set(get_args(Buffer))]
        if len(integers) + len(self._texts) + len(bodies) != len(names) or len(bodies) > 1:
            raise TypeError(f"the fields of {kind.__name__} are int, str or Buffer, and one Buffer at most")
        self.code = code
        self._kind: Any = kind
        self._body = bodies[0] if bodies else None
        self._numbers = struct.Struct(f">{len(integers)}q")
        self._numbers_of = _values_of(integers)
        sent = [*integers, *self._texts, *bodies]
        self._arguments = itemgetter(*map(sent.index, names))  # of the constructor, out of the values as they are sent

    def header(self, message: object) -> bytes:
        numbers = self._numbers_of(message)
        if min(numbers, default=0) < INTEGER_MIN:
            raise ValueError(f"a number below {INTEGER_MIN} in {message}")
        try:
            head = self._numbers.pack(*numbers)
        except struct.error:
            raise ValueError(f"a number of more than 64 bits in {message}") from None
        return head + b"".join([_encode_text(getattr(message, name), name) for name in self._texts])

    def body(self, message: object) -> Buffer:
        body: Buffer = b"" if self._body is None else getattr(message, self._body)
        return body

    def message(self, header: Buffer, body: Buffer) -> ReplicaMessage:
        at = self._numbers.size
        if len(header) < at:
            raise ProtocolError(f"a header of {len(header)} bytes for {self._kind.__name__}; it has {at} at least")
        values: list[Any] = [*self._numbers.unpack_from(header)]
        if min(values, default=0) < INTEGER_MIN:
            raise ProtocolError(f"a number below {INTEGER_MIN} in {self._kind.__name__}")
        for name in self._texts:
            text, at = _decode_text(header, at, name)
            values.append(text)
        # Bytes left over would mean that the sender has another form.
        if at != len(header) or (body and self._body is None):
            raise ProtocolError(f"bytes behind the end of {self._kind.__name__}")
        if self._body is not None:
            values.append(body)
        message: ReplicaMessage = self._kind(*self._arguments(values))
        return message


def _values_of(names: list[str]) -> Any:
    """A function that gets these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    # `attrgetter` of one name gives the value itself.
    return lambda value: tuple([getattr(value, name) for name in names])


@lru_cache(TEXTS_KEPT)
def _encode_text(text: str, name: str) -> bytes:
    data = text.encode()
    if len(data) > TEXT_BYTES_MAX or (name == "group" and not GROUP_NAME.fullmatch(text)):
        raise ValueError(f"the {name} {text[:TEXT_BYTES_MAX]!r} cannot be sent")
    return bytes([len(data)]) + data


def _decode_text(header: Buffer, at: int, name: str) -> tuple[str, int]:
    """The text at a position, and the position behind it."""
    end = at + 1 + header[at] if at < len(header) else at + 1
    if end > len(header):
        raise ProtocolError(f"the {name} of a message is cut off")
    return _checked_text(bytes(header[at + 1 : end]), name), end


@lru_cache(TEXTS_KEPT)
def _checked_text(data: bytes, name: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ProtocolError(f"the {name} of a message is no UTF-8") from None
    # The name of a group is the name of a folder, too.
    if name == "group" and not GROUP_NAME.fullmatch(text):
        raise ProtocolError(f"{text!r} is no name of a partition group")
    return text


_FORMS_BY_CODE: Final = {code: _MessageForm(code, kind) for code, kind in _MESSAGES.items()}
_FORMS_BY_KIND: Final[Mapping[type, _MessageForm]] = {form._kind: form for form in _FORMS_BY_CODE.values()}
