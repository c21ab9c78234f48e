"""Reactor: accepts connections, cuts bytes into frames, hands them to a handler, sends its answers back in order.

Knows frames and limits; knows no protocol above the frame, no topics, and never what a request means. Programs
import from here: `from hutong import reactor`, then `reactor.serve` and `reactor.connect`.
"""

from typing import TYPE_CHECKING

from hutong.foundation.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hutong.reactor.connections.channel import HELD, PendingResponse, Response
    from hutong.reactor.connections.handler import Handler, Peer
    from hutong.reactor.frames.framing import Framing, LengthPrefixedFraming
    from hutong.reactor.frames.lines import LineFraming
    from hutong.reactor.front.client import PipelineClient, ReactorConnection, connect
    from hutong.reactor.front.server import ReactorServer, serve
    from hutong.reactor.limits import ReactorLimits
    from hutong.reactor.pipeline.ends import ConnectionEnded, ConnectionOpened, PipelinePeer, SendingChanged
    from hutong.reactor.pipeline.handlers import (
        FrameCutter,
        IdleEvent,
        IdleHandler,
        JsonCodec,
        LengthFrames,
        LineFrames,
        SniffHandler,
        is_tls,
    )
    from hutong.reactor.pipeline.machine import ConnectionPipeline, PipelineHandler, PipelineLink
    from hutong.reactor.pipeline.tls import TlsHandler, TlsOpened
    from hutong.reactor.tls.server_contexts import server_context
    from hutong.wire.buffer import Buffer

__all__ = [
    "HELD",
    "Buffer",
    "ConnectionEnded",
    "ConnectionOpened",
    "ConnectionPipeline",
    "FrameCutter",
    "Framing",
    "Handler",
    "IdleEvent",
    "IdleHandler",
    "JsonCodec",
    "LengthFrames",
    "LengthPrefixedFraming",
    "LineFrames",
    "LineFraming",
    "Peer",
    "PendingResponse",
    "PipelineClient",
    "PipelineHandler",
    "PipelineLink",
    "PipelinePeer",
    "ReactorConnection",
    "ReactorLimits",
    "ReactorServer",
    "Response",
    "SendingChanged",
    "SniffHandler",
    "TlsHandler",
    "TlsOpened",
    "connect",
    "is_tls",
    "serve",
    "server_context",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "reactor.connections.channel": ("HELD", "PendingResponse", "Response"),
        "reactor.connections.handler": ("Handler", "Peer"),
        "reactor.frames.framing": ("Framing", "LengthPrefixedFraming"),
        "reactor.frames.lines": ("LineFraming",),
        "reactor.front.client": ("PipelineClient", "ReactorConnection", "connect"),
        "reactor.front.server": ("ReactorServer", "serve"),
        "reactor.limits": ("ReactorLimits",),
        "reactor.pipeline.handlers": (
            "FrameCutter",
            "IdleEvent",
            "IdleHandler",
            "JsonCodec",
            "LengthFrames",
            "LineFrames",
            "SniffHandler",
            "is_tls",
        ),
        "reactor.pipeline.ends": ("ConnectionEnded", "ConnectionOpened", "PipelinePeer", "SendingChanged"),
        "reactor.pipeline.machine": ("ConnectionPipeline", "PipelineHandler", "PipelineLink"),
        "reactor.pipeline.tls": ("TlsHandler", "TlsOpened"),
        "reactor.tls.server_contexts": ("server_context",),
        "wire.buffer": ("Buffer",),
    },
)
