"""RPC: services called by name over the event bus or a connection, their effects as often as the caller chose.

Nothing is imported before it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.rpc.call import AUTH_TOKEN, IncomingCall, current_call
    from hutong.rpc.description import closes, describe, service
    from hutong.rpc.errors import (
        BadArguments,
        BadReply,
        CallFailed,
        CallTimeout,
        ConnectionLost,
        DispatchFailed,
        NoService,
        NotAuthenticated,
        NotAuthorized,
        OutcomeUnknown,
        RequestExpired,
        ServiceError,
        ServiceFault,
    )
    from hutong.rpc.interceptors import Interceptor, Phase, authentication, authorization, interceptor
    from hutong.rpc.options import CallOptions, Delivery
    from hutong.rpc.proxy import Service, with_options
    from hutong.rpc.rpc import Rpc

__all__ = [
    "AUTH_TOKEN",
    "BadArguments",
    "BadReply",
    "CallFailed",
    "CallOptions",
    "CallTimeout",
    "ConnectionLost",
    "Delivery",
    "DispatchFailed",
    "IncomingCall",
    "Interceptor",
    "NoService",
    "NotAuthenticated",
    "NotAuthorized",
    "OutcomeUnknown",
    "Phase",
    "RequestExpired",
    "Rpc",
    "Service",
    "ServiceError",
    "ServiceFault",
    "authentication",
    "authorization",
    "closes",
    "current_call",
    "describe",
    "interceptor",
    "service",
    "with_options",
]
_MODULES: Final = {
    "AUTH_TOKEN": "call",
    "CallOptions": "options",
    "Delivery": "options",
    "IncomingCall": "call",
    "Interceptor": "interceptors",
    "Phase": "interceptors",
    "Rpc": "rpc",
    "Service": "proxy",
    "authentication": "interceptors",
    "authorization": "interceptors",
    "interceptor": "interceptors",
    "with_options": "proxy",
    "closes": "description",
    "current_call": "call",
    "describe": "description",
    "service": "description",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"hutong.rpc.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = found
    return found
