"""RPC: services called by name over the event bus or a connection, their effects as often as the caller chose.

Nothing is imported before it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.rpc.call import AUTH_TOKEN, IncomingCall, current_call
    from hutong.rpc.calling.proxy import Service, with_options
    from hutong.rpc.delivery.caller.retry import Pace
    from hutong.rpc.delivery.caller.session_ids import new_request_id
    from hutong.rpc.delivery.deduplication import Deduplication
    from hutong.rpc.descriptions.description import closes, describe, service
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
    from hutong.rpc.options import CallOptions, Delivery
    from hutong.rpc.remote.client import Client, caller_of, connect
    from hutong.rpc.remote.incoming import CallLimits
    from hutong.rpc.rpc import Rpc
    from hutong.rpc.serving.binding import Binding
    from hutong.rpc.serving.discovery import Discovery
    from hutong.rpc.serving.interceptors import Interceptor, Phase, authentication, authorization, interceptor

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
    "Binding": "serving.binding",
    "CallLimits": "remote.incoming",
    "CallOptions": "options",
    "Client": "remote.client",
    "Deduplication": "delivery.deduplication",
    "Delivery": "options",
    "Discovery": "serving.discovery",
    "IncomingCall": "call",
    "Interceptor": "serving.interceptors",
    "Pace": "delivery.caller.retry",
    "Phase": "serving.interceptors",
    "new_request_id": "delivery.caller.session_ids",
    "Rpc": "rpc",
    "Service": "calling.proxy",
    "authentication": "serving.interceptors",
    "authorization": "serving.interceptors",
    "interceptor": "serving.interceptors",
    "with_options": "calling.proxy",
    "caller_of": "remote.client",
    "closes": "descriptions.description",
    "connect": "remote.client",
    "current_call": "call",
    "describe": "descriptions.description",
    "service": "descriptions.description",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"hutong.rpc.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = found
    return found
