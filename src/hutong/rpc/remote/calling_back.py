"""Callers over a connection that is already there: for services that call back the peer that called them.

Strategy: one caller for each channel, so that two references to the same object are equal. What such a caller passes
is bound for that channel alone, and ends with it.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.remoting.channels.channel import Channel
from hutong.rpc.calling.caller import Caller
from hutong.rpc.remote.outgoing import ChannelTransport

if TYPE_CHECKING:
    from hutong.rpc.over_bus.exports import ReferenceContexts
    from hutong.rpc.over_bus.temporary import Surroundings
    from hutong.rpc.tracing import CallTracer

CONNECTION_CALLER: Final = "rpc.caller"
"""Attribute of a channel."""


class ChannelCaller(Caller):
    """Calls services at the peer of one channel, as long as it lasts. From any thread."""

    def __init__(
        self,
        channel: Channel,
        loop: asyncio.AbstractEventLoop,
        surroundings: "Surroundings",
        contexts: "ReferenceContexts",
        references_max: int,
        tracer: "CallTracer | None",
    ) -> None:
        from hutong.rpc.over_bus.exports import Exports

        exports = Exports(surroundings, contexts, self, lambda: channel.owner, references_max)
        super().__init__(ChannelTransport(channel, loop), exporter=exports, loop=loop)
        if tracer is not None:
            self.set_tracer(tracer)


def calling_back(
    loop: asyncio.AbstractEventLoop,
    surroundings: "Callable[[], tuple[Surroundings, ReferenceContexts]]",
    references_max: int,
) -> Callable[[Channel], Caller]:
    """Return what finds the caller over a channel. `surroundings` is called when the first one is made."""

    def caller_over(channel: Channel) -> Caller:
        found: Caller | None = channel.attributes.get(CONNECTION_CALLER)
        if found is None:
            around, contexts = surroundings()
            made = ChannelCaller(channel, loop, around, contexts, references_max, around.tracer)
            # Two threads may make one each: both use the first.
            found = channel.attributes.setdefault(CONNECTION_CALLER, made)
        return found

    return caller_over
