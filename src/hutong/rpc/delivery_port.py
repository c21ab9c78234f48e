"""The ports of delivery semantics: the memory of a service, and what a proxy that tries again makes of a transport.

A binding without a memory executes what arrives; a proxy without retries sends once. Memories and retries are behind
these two ports, so that neither a dispatcher nor a proxy knows them.
"""

from collections.abc import Callable
from typing import Final, Protocol

from hutong.rpc.call import Done, IncomingCall
from hutong.rpc.calling.transport import Transport
from hutong.rpc.options import CallOptions

REQUEST_ID: Final = "request-id"
"""Header of a call: which request it is, however often it is sent."""
ACKED_BELOW: Final = "acked-below"
"""Header of a call: the sequence below which all answers of its session have been received."""
NEEDS_MEMORY: Final = "needs-memory"
"""Header of a call: a service that remembers nothing must refuse it, rather than execute it more than once."""

Execute = Callable[[Done], None]


class Memory(Protocol):
    """A service's memory of executed calls. Called in the binding's context.

    Between interceptors and the decoding of arguments: a call that an interceptor refuses is not remembered.
    """

    async def open(self) -> None:
        """Get ready, before the first call. Raises what keeps it from that."""

    def begin_call(self, call: IncomingCall, execute: Execute, done: Done) -> None:
        """Execute the call (at most once), or tell `done` the outcome of earlier. `done` is called once in any case.

        `execute(then)` runs the implementation and tells `then` the outcome, in the binding's context.
        """

    async def close(self) -> None:
        """The binding is unbound, and no call is under way."""


MakeReliable = Callable[[Transport, CallOptions], Transport]
"""Wraps a transport for proxies whose delivery tries again: the timeout of a call is then for all its attempts."""
