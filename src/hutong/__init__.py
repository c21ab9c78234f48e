"""Hutong: a messaging backbone in Python. `hutong.Node` is a node inside a program.

Programs import from here the names that they use most; packages such as `hutong.bus` and `hutong.rpc` have the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.bus import (
        BusClosed,
        DeliveryOptions,
        EventBus,
        FailureType,
        HandlerRaised,
        Headers,
        Message,
        ReplyError,
    )
    from hutong.foundation.errors import (
        Expired,
        HutongError,
        LimitExceeded,
        OwnerGone,
        PeerError,
        ProtocolError,
        Refused,
        StorageError,
        UsageError,
        WaitError,
    )
    from hutong.rpc import CallFailed, Rpc, ServiceError, ServiceFault, connect, service
    from hutong.runtime import DeploymentOptions, Runtime, Verticle
    from hutong.server.embedded import Node

__all__ = [
    "BusClosed",
    "CallFailed",
    "DeliveryOptions",
    "DeploymentOptions",
    "EventBus",
    "Expired",
    "FailureType",
    "HandlerRaised",
    "Headers",
    "HutongError",
    "LimitExceeded",
    "Message",
    "Node",
    "OwnerGone",
    "PeerError",
    "ProtocolError",
    "Refused",
    "ReplyError",
    "Rpc",
    "Runtime",
    "ServiceError",
    "ServiceFault",
    "StorageError",
    "UsageError",
    "Verticle",
    "WaitError",
    "connect",
    "service",
]

_MODULES: Final = {
    "bus": (
        "BusClosed",
        "DeliveryOptions",
        "EventBus",
        "FailureType",
        "HandlerRaised",
        "Headers",
        "Message",
        "ReplyError",
    ),
    "rpc": ("CallFailed", "Rpc", "ServiceError", "ServiceFault", "connect", "service"),
    "runtime": ("DeploymentOptions", "Runtime", "Verticle"),
    "server.embedded": ("Node",),
}


def __getattr__(name: str) -> object:
    """Nothing is imported before it is asked for: commands and Spark's workers start without a node."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = [module for module, names in _MODULES.items() if name in names]
    found: object = getattr(import_module(f"{__name__}.{modules[0] if modules else 'foundation.errors'}"), name)
    # Kept, so that the next use is an ordinary attribute.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """All names, also those that are not imported yet: shells complete them."""
    return sorted({*globals(), *__all__})
