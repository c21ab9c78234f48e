"""The transport port of callers: it carries the calls of a proxy.

Strategy: the constant parts of all calls of one method by one proxy are in a call site, made once. A transport may
cache derived values in it (a resolved address, an encoded header block). A call itself is a site and the arguments.

A transport that adds something (retries, request ids) wraps another one and is a transport itself. Knows none of them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from hutong.foundation.waiting.pending import Continuation
from hutong.rpc.call import Outcome
from hutong.rpc.descriptions.description import MethodDescription
from hutong.rpc.options import HeaderPairs


class CallSite:
    """A call without its arguments. Constant except for `cache`, which belongs to the transport.

    `method` is None for calls by name; then the result is converted to `result_type`.
    """

    __slots__ = ("action", "address", "cache", "headers", "method", "result_type")

    def __init__(
        self,
        address: str,
        action: str,
        method: MethodDescription | None = None,
        headers: HeaderPairs = (),
        result_type: Any = Any,
    ) -> None:
        self.address = address
        self.action = action
        self.method = method
        self.headers = headers
        self.result_type = result_type if method is None else method.wire_type
        self.cache: Any = None


class OutgoingCall(Struct, eq=False, gc=False):
    """One call. `arguments` is the method's struct, or a mapping by name; `headers` come behind those of the site."""

    site: CallSite
    arguments: Struct | Mapping[str, Any]
    headers: HeaderPairs = ()

    @property
    def address(self) -> str:
        return self.site.address

    @property
    def action(self) -> str:
        return self.site.action

    @property
    def method(self) -> MethodDescription | None:
        return self.site.method


Ended = Continuation[Outcome]
"""Called once with the outcome of a call: the service's answer, its value converted to the site's `result_type`; or the
error that prevented an answer, mostly a CallFailed.
"""
Abandon = Callable[[], object]
"""Abandon the call: no callback follows, and nothing waits. Harmless once the call is over."""


class Transport(Protocol):
    """Carries calls. On one event loop; `done` is called there, never before `begin` has returned."""

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        """Carry the call once. Raises TypeError or ValueError for arguments that cannot be encoded."""
        ...
