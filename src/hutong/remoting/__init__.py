"""Remoting: duplex command frames over the reactor, as RocketMQ's clients and servers speak them. Knows no topics.

Programs import from here: `from hutong import remoting`, then `remoting.serve` and `remoting.connect`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

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
    from hutong.remoting.server import TlsMode
    from hutong.wire.rocketmq.command import Command

__all__ = [
    "AbortProcess",
    "Answer",
    "Channel",
    "Command",
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

_MODULES: Final = {
    "foundation.waiting.pending": ("Pending",),
    "remoting.channels.answers": ("Answer", "ReadyAnswer"),
    "remoting.channels.channel": ("Channel",),
    "remoting.front": ("RemotingConnection", "ServingRemoting", "connect", "serve"),
    "remoting.limits": ("RemotingLimits",),
    "remoting.server": ("TlsMode",),
    "wire.rocketmq.command": ("Command",),
}


def __getattr__(name: str) -> object:
    """Imported when asked for: other packages need single modules of this one."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"hutong.{module}"), name)
    return getattr(import_module("hutong.remoting.errors"), name)
