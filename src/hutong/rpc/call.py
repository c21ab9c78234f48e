"""A call as the service sees it, and its outcome. Every transport has a class of its own for incoming calls.

Knows no transport and no service.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from hutong.bus.envelope.headers import Headers
from hutong.foundation.errors import UsageError
from hutong.foundation.waiting.table import Owner
from hutong.rpc.errors import DispatchFailed, Failure
from hutong.rpc.options import HeaderPairs

if TYPE_CHECKING:
    from hutong.rpc.calling.caller import Caller

A = TypeVar("A")
ACTION: Final = "action"
"""Header of the bus: the method that is called."""
PROXY_ADDRESS: Final = "proxyaddr"
"""Header of an answer: where the service that was returned is bound."""
STREAM_ADDRESS: Final = "streamaddr"
"""Header of an answer: where the items of the stream that was returned are asked for."""
RELEASE: Final = "hutong.release"
"""Action at the address of an object that was passed: its holder has dropped `count` references."""
REFERENCES_MAX: Final = 10_000
"""Streams and references that one connection has open, and objects that it has passed, unless it has other limits."""
AUTH_TOKEN: Final = "auth-token"
"""Header of a call: the token of the caller, for authentication interceptors."""


class IncomingCall(Struct, eq=False):
    """One call that has arrived. Transports subclass it, with the data that `arguments` decodes."""

    address: str  # of the service
    action: str  # the method that is called
    header_pairs: HeaderPairs = ()
    peer: Any = None  # the caller, as the transport knows it: "bus", a connection's channel, gRPC's context
    owner: Owner | None = None  # what ends with the caller's connection: streams and references opened for it
    deadline_ms: int | None = None  # in monotonic milliseconds of this process, if the caller sent a timeout
    user: Any = None  # the caller, as an authentication interceptor has identified it
    takes_streams: bool = False  # the transport reads a stream (or gets a reference's service) itself, as outcome.value

    @property
    def headers(self) -> Headers:
        """The caller's headers; to be read."""
        return Headers.of(self.header_pairs)

    @property
    def origin(self) -> str:
        """The address of the host that the call came from; empty within this process."""
        return ""

    @property
    def references_max(self) -> int:
        """The number of streams and references that may be open for its connection."""
        return REFERENCES_MAX

    def caller(self) -> "Caller":
        """The caller of services at the peer. Raises DispatchFailed where the transport has no way back."""
        raise DispatchFailed(f"{self.action!r} passes a service, and its caller cannot be called back on this way")

    def arguments(self, kind: type[A]) -> A:
        """The arguments as the struct of a method. Raises BadArguments, which names the parameter."""
        raise NotImplementedError

    def raw_arguments(self) -> Any:
        """The arguments as they came, for interceptors, which run before they are decoded. Raises BadArguments."""
        raise NotImplementedError


class Outcome(Struct, gc=False):
    """The outcome of a call: a value, or a failure.

    At the service `value` is the Python object that the implementation returned; the transport encodes it, by the
    method's `result_type`. With `is_encoded` it is JSON-compatible builtins, stored by an earlier call. At the caller
    it is the value that the transport decoded.
    """

    value: Any = None
    failure: Failure | None = None
    headers: HeaderPairs = ()  # of the answer: PROXY_ADDRESS, STREAM_ADDRESS
    is_encoded: bool = False
    has_references: bool = False  # in the value: it belongs to this process and to its caller


Done = Callable[[Outcome], object]
"""Called with the outcome, once, in the context of the service."""

CURRENT_CALL: Final[ContextVar[IncomingCall | None]] = ContextVar("hutong_rpc_call", default=None)


def current_call() -> IncomingCall:
    """The call that the caller of this function is executing: its headers, its peer, its deadline.

    It follows an implementation into the tasks that it starts. Raises UsageError outside of every call.
    """
    call = CURRENT_CALL.get()
    if call is None:
        raise UsageError("current_call() is for the implementation of a service, while it executes a call.")
    return call
