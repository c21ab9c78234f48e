"""RPC: services called by name over the event bus or a connection, their effects as often as the caller chose.

Nothing is imported before it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.rpc.binding import Binding
    from hutong.rpc.call import AUTH_TOKEN, IncomingCall, current_call
    from hutong.rpc.delivery.deduplication import Deduplication
    from hutong.rpc.delivery.retry import Pace
    from hutong.rpc.delivery.session_ids import new_request_id
    from hutong.rpc.description import closes, describe, service
    from hutong.rpc.discovery import Discovery
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
        NotConnected,
        NotExecuted,
        OutcomeUnknown,
        Overloaded,
        RequestExpired,
        RequestIdReused,
        ResultNotKept,
        ServiceError,
        ServiceFault,
    )
    from hutong.rpc.interceptors import Interceptor, Phase, authentication, authorization, interceptor
    from hutong.rpc.options import CallOptions, Delivery
    from hutong.rpc.proxy import Service, with_options
    from hutong.rpc.remote.client import Client, caller_of, connect
    from hutong.rpc.remote.incoming import CallLimits
    from hutong.rpc.rpc import Rpc

__all__ = [
    "AUTH_TOKEN",
    "BadArguments",
    "BadReply",
    "Binding",
    "CallFailed",
    "CallLimits",
    "CallOptions",
    "CallTimeout",
    "Client",
    "ConnectionLost",
    "Deduplication",
    "Delivery",
    "Discovery",
    "DispatchFailed",
    "IncomingCall",
    "Interceptor",
    "NoService",
    "NotAuthenticated",
    "NotAuthorized",
    "NotConnected",
    "NotExecuted",
    "OutcomeUnknown",
    "Overloaded",
    "Pace",
    "Phase",
    "RequestExpired",
    "RequestIdReused",
    "ResultNotKept",
    "Rpc",
    "Service",
    "ServiceError",
    "ServiceFault",
    "authentication",
    "authorization",
    "caller_of",
    "closes",
    "connect",
    "current_call",
    "describe",
    "interceptor",
    "new_request_id",
    "service",
    "with_options",
]
_MODULES: Final = {
    "AUTH_TOKEN": "call",
    "Binding": "binding",
    "CallLimits": "remote.incoming",
    "CallOptions": "options",
    "Client": "remote.client",
    "Deduplication": "delivery.deduplication",
    "Delivery": "options",
    "Discovery": "discovery",
    "IncomingCall": "call",
    "Interceptor": "interceptors",
    "Pace": "delivery.retry",
    "Phase": "interceptors",
    "new_request_id": "delivery.session_ids",
    "Rpc": "rpc",
    "Service": "proxy",
    "authentication": "interceptors",
    "authorization": "interceptors",
    "interceptor": "interceptors",
    "with_options": "proxy",
    "caller_of": "remote.client",
    "closes": "description",
    "connect": "remote.client",
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
