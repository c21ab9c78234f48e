"""An answer that comes later, taken out of the reactor's hands: to be kept back, or read in this process.

Strategy: each answer gets a request channel of its own, which is the reactor's way to learn that one is complete; so an
answer taken here behaves as on a connection.

Knows nothing of what is in an answer.
"""

from collections.abc import Callable

from hutong.reactor.connections.channel import PendingResponse, RequestChannel
from hutong.wire.buffer import Buffer

Buffers = list[Buffer] | None


def when_answered(
    answer: Buffers | PendingResponse, then: Callable[[Buffers], None], refused: Callable[[], None]
) -> None:
    """Call `then` with the buffers, now if they are there, or `refused` where the handler ends the connection instead.

    None is a request that has no answer. Either may be called during this call.
    """
    if not isinstance(answer, PendingResponse):
        then(answer)
        return
    is_refused = False

    def refuse() -> None:
        nonlocal is_refused
        is_refused = True
        refused()

    channel = RequestChannel(lambda: then(channel.take_ready()), refuse)
    channel.add_response(answer)
    if not channel.pending_count and not is_refused:  # it was complete before
        then(channel.take_ready())
