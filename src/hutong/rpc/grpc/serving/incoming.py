"""A call that came over gRPC, and the wait for its outcome.

Knows no server beyond the context that gRPC gives with each call.
"""

import asyncio
import threading
from typing import Any, TypeVar

from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.numbered import NumberedWait
from hutong.foundation.waiting.pending import settle_future
from hutong.rpc.call import IncomingCall, Outcome
from hutong.rpc.errors import BadArguments
from hutong.rpc.grpc.proto.conversion import MethodConversion

A = TypeVar("A")


class GrpcCall(IncomingCall):
    """`peer` is gRPC's context. `has_bad_arguments` tells wrong arguments from other failures of the same code."""

    request: bytes = b""
    conversion: MethodConversion | None = None
    has_bad_arguments: bool = False

    @property
    def origin(self) -> str:
        """The caller's address; gRPC writes `ipv4:10.0.0.7:50123`."""
        return str(self.peer.peer()).rpartition(":")[0]

    def arguments(self, kind: type[A]) -> A:
        assert self.conversion is not None
        try:
            return self.conversion.arguments(self.request, kind)
        except BadArguments:
            self.has_bad_arguments = True
            raise

    def raw_arguments(self) -> Any:
        assert self.conversion is not None
        try:
            return self.conversion.raw_arguments(self.request)
        except BadArguments:
            self.has_bad_arguments = True
            raise


class AwaitedOutcome(NumberedWait[Outcome]):
    """Parked; a task of the server's loop awaits `future`, any thread may end it."""

    __slots__ = ("_loop", "_thread_id", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread_id = threading.get_ident()
        self.future: asyncio.Future[Outcome] = loop.create_future()

    def end(self, outcome: Outcome | HutongError) -> None:
        if threading.get_ident() == self._thread_id:
            settle_future(self.future, outcome)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle_future, self.future, outcome)
