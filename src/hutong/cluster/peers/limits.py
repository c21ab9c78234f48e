"""Every bound of the links between nodes, by name."""

from dataclasses import dataclass, fields
from typing import Final

from hutong.reactor.limits import ReactorLimits
from hutong.remoting.limits import RemotingLimits

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE
HEARTBEAT_MS: Final = 500
SILENCE_MS_MAX: Final = 3_000
HANDSHAKE_MS_MAX: Final = 3_000
HANDSHAKE_FRAME_BYTES_MAX: Final = 4 * KIBIBYTE
LINK_FRAME_BYTES_MAX: Final = 64 * MEBIBYTE
UNSENT_BYTES_MAX: Final = 256 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Bounds of one network. Raises ValueError for a bound below one.

    A leader ships at most 8 MiB of each group to a follower that does not answer, so `unsent_bytes_max` is for as many
    groups as one node may lead.
    """

    heartbeat_ms: int = HEARTBEAT_MS
    silence_ms_max: int = SILENCE_MS_MAX  # a link on which nothing came for so long ends
    handshake_ms_max: int = HANDSHAKE_MS_MAX  # from the connection to the link
    handshake_frame_bytes_max: int = HANDSHAKE_FRAME_BYTES_MAX  # of a frame before the link
    frame_bytes_max: int = LINK_FRAME_BYTES_MAX  # of a frame on a link: one chunk at least
    unsent_bytes_max: int = UNSENT_BYTES_MAX  # of one link; beyond it the link ends
    questions_max: int = 1_024  # per link and direction: questions that are not answered yet
    connect_ms_max: int = 2_000
    back_off_ms: int = 10  # after a failed attempt to connect, then twice that...
    back_off_ms_max: int = 1_000  # ...up to this
    lasting_ms: int = 1_000  # a link that ended earlier counts as a failed attempt
    connections_max: int = 256  # accepted at a time, linked or not
    memory_bytes_max: int = 1_024 * MEBIBYTE  # of all accepted connections together, and of all that were dialled
    close_ms_max: int = 1_000  # for what is unsent when the network closes
    faults_remembered_max: int = 256  # faults that were logged and are not logged again

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1")

    def remoting(self) -> RemotingLimits:
        """The bounds for the connections below. Those of a single link are checked by the link itself."""
        reactor = ReactorLimits(
            connections_max=self.connections_max,
            connections_per_ip_max=self.connections_max,
            frame_bytes_max=self.frame_bytes_max,
            receiving_bytes_max=self.memory_bytes_max,
            receiving_bytes_per_ip_max=self.memory_bytes_max,
            memory_bytes_max=self.memory_bytes_max,
            unsent_bytes_max=4 * MEBIBYTE,
            closing_ms_max=self.close_ms_max,
        )
        return RemotingLimits(
            invocations_max=self.questions_max,
            unsent_bytes_max=self.unsent_bytes_max,
            unsent_answer_bytes_max=2 * self.unsent_bytes_max,
            unanswered_max=2 * self.questions_max,
            reactor=reactor,
        )
