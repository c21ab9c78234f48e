"""Remoting: duplex command frames over the reactor, as RocketMQ's clients and servers speak them. Knows no topics.

Programs import from here: `from hutong import remoting`, then `remoting.serve` and `remoting.connect`.
"""

from typing import TYPE_CHECKING

from hutong.foundation.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hutong.foundation.waiting.pending import Pending
    from hutong.remoting.channels.answers import Answer, ReadyAnswer
    from hutong.remoting.channels.channel import Channel
    from hutong.remoting.errors import (
        AbortProcess,
        RemotingConnectFailed,
        RemotingError,
        RemotingSendFailed,
        RemotingTimeout,
        TooManyRequests,
    )
    from hutong.remoting.front import RemotingConnection, ServingRemoting, connect, serve
    from hutong.remoting.limits import RemotingLimits
    from hutong.remoting.piped import CommandCodec
    from hutong.remoting.server import TlsMode
    from hutong.wire.rocketmq.command import FRAME_BYTES_MAX, Command

__all__ = [
    "FRAME_BYTES_MAX",
    "AbortProcess",
    "Answer",
    "Channel",
    "Command",
    "CommandCodec",
    "Pending",
    "ReadyAnswer",
    "RemotingConnectFailed",
    "RemotingConnection",
    "RemotingError",
    "RemotingLimits",
    "RemotingSendFailed",
    "RemotingTimeout",
    "ServingRemoting",
    "TlsMode",
    "TooManyRequests",
    "connect",
    "serve",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "foundation.waiting.pending": ("Pending",),
        "remoting.channels.answers": ("Answer", "ReadyAnswer"),
        "remoting.channels.channel": ("Channel",),
        "remoting.errors": (
            "AbortProcess",
            "RemotingConnectFailed",
            "RemotingError",
            "RemotingSendFailed",
            "RemotingTimeout",
            "TooManyRequests",
        ),
        "remoting.front": ("RemotingConnection", "ServingRemoting", "connect", "serve"),
        "remoting.limits": ("RemotingLimits",),
        "remoting.piped": ("CommandCodec",),
        "remoting.server": ("TlsMode",),
        "wire.rocketmq.command": ("FRAME_BYTES_MAX", "Command"),
    },
)
