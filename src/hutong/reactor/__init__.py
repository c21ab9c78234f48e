"""Reactor: accepts connections, cuts bytes into frames, hands them to a handler, sends its answers back in order.

Knows frames and limits; knows no protocol above the frame, no topics, and never what a request means. Programs
import from here: `from hutong import reactor`, then `reactor.serve` and `reactor.connect`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.reactor.connections.channel import HELD, PendingResponse, Response
    from hutong.reactor.connections.handler import Handler, Peer
    from hutong.reactor.frames.framing import Framing, LengthPrefixedFraming
    from hutong.reactor.frames.lines import LineFraming
    from hutong.reactor.front.client import ReactorConnection, connect
    from hutong.reactor.front.server import ReactorServer, serve
    from hutong.reactor.limits import ReactorLimits
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
    from hutong.reactor.pipeline.machine import (
        ConnectionEnded,
        ConnectionOpened,
        ConnectionPipeline,
        PipelineHandler,
        PipelineLink,
        SendingChanged,
    )
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
    "PipelineHandler",
    "PipelineLink",
    "ReactorConnection",
    "ReactorLimits",
    "ReactorServer",
    "Response",
    "SendingChanged",
    "SniffHandler",
    "connect",
    "is_tls",
    "serve",
    "server_context",
]

_MODULES: Final = {
    "reactor.connections.channel": ("HELD", "PendingResponse", "Response"),
    "reactor.connections.handler": ("Handler", "Peer"),
    "reactor.frames.framing": ("Framing", "LengthPrefixedFraming"),
    "reactor.frames.lines": ("LineFraming",),
    "reactor.front.client": ("ReactorConnection", "connect"),
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
    "reactor.pipeline.machine": (
        "ConnectionEnded",
        "ConnectionOpened",
        "ConnectionPipeline",
        "PipelineHandler",
        "PipelineLink",
        "SendingChanged",
    ),
    "reactor.tls.server_contexts": ("server_context",),
    "wire.buffer": ("Buffer",),
}


def __getattr__(name: str) -> object:
    """Imported when asked for: other packages need single modules of this one."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"hutong.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
