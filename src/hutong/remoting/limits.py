"""Every bound of remoting, by name. Defaults follow RocketMQ's NettyServerConfig and NettyClientConfig."""

from dataclasses import dataclass, field
from typing import Final

from hutong.reactor.limits import ReactorLimits
from hutong.wire.rocketmq.command import FRAME_BYTES_MAX

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE
IDLE_MS_MAX: Final = 120_000


def _reactor_limits() -> ReactorLimits:
    return ReactorLimits(frame_bytes_max=FRAME_BYTES_MAX, idle_ms_max=IDLE_MS_MAX, listen_backlog=1024)


@dataclass(frozen=True, slots=True)
class RemotingLimits:
    """Bounds of one side. Those "per connection" hold for each connection by itself: one peer cannot use up another's.

    (RocketMQ's permits are per process.) Raises ValueError for a bound below one.
    """

    invocations_max: int = 65_535  # per connection: answers awaited at a time
    unsent_oneway_max: int = 65_535  # per connection: oneway requests sent while the peer does not read
    unsent_bytes_max: int = 4 * MEBIBYTE  # per connection: beyond it nothing more is asked of a peer that does not read
    unsent_answer_bytes_max: int = 16 * MEBIBYTE  # per connection: beyond it nothing such a peer asks is begun
    unanswered_max: int = 4_096  # per connection: requests that are answered later; beyond it the peer is not read
    queue_max: int = 10_000  # requests that wait for one executor, where it has no bound of its own
    events_max: int = 10_000  # channel events not yet reported; more are dropped
    connect_ms_max: int = 3_000
    back_off_ms: int = 100  # after a failed attempt to connect, then twice that...
    back_off_ms_max: int = 5_000  # ...up to this
    addresses_max: int = 10_000  # that a client remembers
    reactor: ReactorLimits = field(default_factory=_reactor_limits)

    def __post_init__(self) -> None:
        for name in self.__slots__:
            bound = getattr(self, name)
            if isinstance(bound, int) and bound < 1:
                raise ValueError(f"{name} must be at least 1")


SERVER_LIMITS: Final = RemotingLimits(invocations_max=64, unsent_oneway_max=256)
CLIENT_LIMITS: Final = RemotingLimits()
