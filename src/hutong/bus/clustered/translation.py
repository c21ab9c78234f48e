"""Messages to frames and back, by the codecs of the bus.

Strategy: the body's codec is the message's own or the one that its type implies, by number where Vert.x has it and by
name where a user has. What an answer cannot carry fails its requester at once, since nobody else would.

Knows no connections.
"""

from typing import Any, Final

from msgspec import Struct

from hutong.bus.delivery.remote import RemoteSide
from hutong.bus.envelope.bodies import IMMUTABLE
from hutong.bus.envelope.codecs import CODECS_BY_NUMBER, CODECS_BY_TYPE, SYSTEM_CODECS, MessageCodec, SystemCodec
from hutong.bus.envelope.message import REPLY_PREFIX, FullMessage, Message, TrackedMessage
from hutong.bus.envelope.reply import Reply
from hutong.bus.errors import BUILT_IN_CODE, HANDLER_RAISED, FailureType, HandlerRaised, ReplyError
from hutong.foundation.errors import HutongError, ProtocolError
from hutong.wire.vertx.cluster_frames import USER_CODEC, ClusterFrame, encode
from hutong.wire.vertx.usual_frames import NO_NUMBER, make_frame
from hutong.wire.vertx.wire_versions import WireVersion

_REPLY_PREFIX: Final = REPLY_PREFIX.encode()
_IMPLIED: Final = frozenset([*(codec.number for codec in CODECS_BY_TYPE.values()), SYSTEM_CODECS["int"].number])
"""Numbers of codecs that a body implies: a message that came by one of them need not remember it.

That of a long is none of them, since a small long is an int as well.
"""


class FrameSender(Struct, frozen=True, gc=False):
    """A node that sends, as its frames name it; `field` is what they have there. Made by `frame_sender`."""

    name: str
    wire: WireVersion
    version: int
    field: bytes


def frame_sender(name: str, wire: WireVersion) -> FrameSender:
    """Raises ValueError for what is no name of a node in this version."""
    return FrameSender(name, wire, wire.number, wire.sender_bytes(name))


def frame_bytes(message: Message, sender: FrameSender) -> bytes:
    """The frame of a message with its length. Raises TypeError or ValueError for what cannot be carried.

    A codec of the user's may raise anything else.
    """
    body, reply = message.body, message._reply
    # Nearly always. A reply that is awaited elsewhere has an address of its own.
    if message._codec is None and not message._headers and message.is_send and (reply is None or not reply.is_remote):
        number = NO_NUMBER if reply is None else reply._number
        frame = make_frame(sender.version, message.address, _REPLY_PREFIX, number, sender.field, body)
        if frame is not None:
            return frame
    codec: Any = message._codec or CODECS_BY_TYPE.get(type(body)) or SYSTEM_CODECS[message.codec_name]
    reply_address = None if reply is None else reply.address
    headers = message.header_pairs if message._headers else ()
    if type(codec) is SystemCodec:
        careful = ClusterFrame(
            codec.number, message.address, sender.name, codec.encode(body), reply_address, headers, message.is_send
        )
    else:
        careful = ClusterFrame(
            USER_CODEC,
            message.address,
            sender.name,
            codec.encode(body),
            reply_address,
            headers,
            message.is_send,
            codec.name,
        )
    return encode(careful, sender.wire)


def message_of(frame: ClusterFrame, side: RemoteSide, reply: Reply | None) -> Message:
    """The message in a frame. Raises ProtocolError for a codec that is not there, or a body that it did not write.

    A codec of the user's may raise anything else.
    """
    codec: MessageCodec[Any, Any] | None
    # Looked up by name in the codecs of this bus: both sides must have registered it.
    if frame.codec == USER_CODEC:
        try:
            codec = side.codec(frame.codec_name or "")
        except ValueError as error:
            raise ProtocolError(str(error)) from None
    else:
        codec = CODECS_BY_NUMBER.get(frame.codec)
        if codec is None:
            raise ProtocolError(f"no codec has the number {frame.codec}")
    body = codec.decode(bytes(frame.body))
    headers = frame.headers or None
    # Nearly always: the body says the codec, and the message need not remember it.
    if frame.is_send and frame.codec in _IMPLIED:
        kind = Message if reply is None and type(body) in IMMUTABLE else TrackedMessage
        return kind(frame.address, body, headers, reply)
    return FullMessage(frame.address, body, headers, reply, frame.is_send, codec)


def carried(error: HutongError) -> ReplyError:
    """The failure of a request as another node may see it."""
    # The text of an exception was not written for other processes.
    if isinstance(error, HandlerRaised):
        return ReplyError(FailureType.RECIPIENT_FAILURE, BUILT_IN_CODE, HANDLER_RAISED)
    if isinstance(error, ReplyError):
        return error
    return ReplyError(FailureType.ERROR, BUILT_IN_CODE, str(error))
