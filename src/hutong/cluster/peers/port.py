"""The port to other nodes: one link with each, over which either side tells and asks.

Strategy: one connection for each pair of nodes, whichever of them made it. Both have proven that they belong to the
cluster and said which life of which node they are. A link that ends loses what is on its way, and the receivers of news
hear of its end before they hear of the next one.

Knows nothing of the content of messages.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from hutong.foundation.waiting.pending import Continuation
from hutong.replication.replica_messages import ReplicaMessage
from hutong.wire.buffer import Buffer


@dataclass(frozen=True, slots=True)
class PeerMessage:
    """A question or an answer. `code` says what is asked; of an answer it is 0, or an error of `PeerAnswerCode`."""

    code: int
    fields: Mapping[str, str]
    body: Buffer = b""


PeerAsked = Callable[[int, PeerMessage, Continuation[PeerMessage]], None]
"""Called with (node, question, then), to answer at once or later. A Refused that it gives reaches the asker as one."""


class PeerListener(Protocol):
    """The receiver of what happens on links."""

    def link_opened(self, node: int, incarnation: int) -> None: ...

    def link_closed(self, node: int, *, is_process_gone: bool) -> None:
        """Note the end of a link, or that none can be made.

        The end is reported at once, with False. True follows if the address refuses, once for each registration, also
        where there never was a link: then the process is gone.
        """

    def replica_told(self, node: int, message: ReplicaMessage) -> None: ...


class Peers(Protocol):
    """All links of this node."""

    def is_open(self, node: int) -> bool: ...

    def send(self, node: int, message: ReplicaMessage) -> None:
        """See `ReplicaLinks`."""
        ...

    def ask(self, node: int, question: PeerMessage, timeout_ms: int, then: Continuation[PeerMessage]) -> None:
        """Ask over the link; `then` gets the answer, Refused, Expired, OwnerGone, or NothingSent without a link.

        It is called in a later iteration of the loop. It gets LimitExceeded for one question too many. An error that
        the other side's `then` was given is Refused here. Codes are 1 to 16383; bodies have 15 MiB at most.
        """
        ...

    def register(self, code: int, asked: PeerAsked) -> None:
        """Answer questions of this code."""
        ...

    def heard_ms(self, node: int) -> int | None:
        """The monotonic time at which something came from the node last; None if it was never linked."""
        ...

    def answered_ms(self, node: int) -> int | None:
        """The monotonic time of the newest heartbeat of this node that the other has answered; None for none.

        It is the time at which it was sent, so the other node was alive after it, whenever the answer was read.
        """
        ...
