"""RPC: services called by name over the event bus or a connection, their effects as often as the caller chose.

Nothing is imported before it is asked for.
"""

from typing import TYPE_CHECKING

from hutong.foundation.lazy_exports import lazy_exports

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
        ReferenceGone,
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
    "ReferenceGone",
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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "rpc.call": ("AUTH_TOKEN", "IncomingCall", "current_call"),
        "rpc.calling.proxy": ("Service", "with_options"),
        "rpc.delivery.caller.retry": ("Pace",),
        "rpc.delivery.caller.session_ids": ("new_request_id",),
        "rpc.delivery.deduplication": ("Deduplication",),
        "rpc.descriptions.description": ("closes", "describe", "service"),
        "rpc.errors": (
            "BadArguments",
            "BadReply",
            "CallFailed",
            "CallTimeout",
            "ConnectionLost",
            "DispatchFailed",
            "NoService",
            "NotAuthenticated",
            "NotAuthorized",
            "NotConnected",
            "NotExecuted",
            "OutcomeUnknown",
            "Overloaded",
            "ReferenceGone",
            "RequestExpired",
            "RequestIdReused",
            "ResultNotKept",
            "ServiceError",
            "ServiceFault",
        ),
        "rpc.options": ("CallOptions", "Delivery"),
        "rpc.remote.client": ("Client", "caller_of", "connect"),
        "rpc.remote.incoming": ("CallLimits",),
        "rpc.rpc": ("Rpc",),
        "rpc.serving.binding": ("Binding",),
        "rpc.serving.discovery": ("Discovery",),
        "rpc.serving.interceptors": ("Interceptor", "Phase", "authentication", "authorization", "interceptor"),
    },
)
