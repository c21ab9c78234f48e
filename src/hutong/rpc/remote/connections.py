"""The bounds of connections that carry calls, the same on both sides."""

from typing import Final

from hutong.reactor.limits import ReactorLimits
from hutong.remoting.limits import RemotingLimits
from hutong.wire.rocketmq.command import FRAME_BYTES_MAX

IDLE_MS_MAX: Final = 3_600_000
"""A connection on which nothing passes for so long is closed, calls that wait for their answers or not."""
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of calls, on one connection: beyond it nothing more is asked of a peer that does not read."""
CONNECTION_LIMITS: Final = RemotingLimits(
    unsent_bytes_max=UNSENT_BYTES_MAX,
    back_off_ms=1,  # the delivery of a call decides on its retries
    back_off_ms_max=1_000,
    reactor=ReactorLimits(frame_bytes_max=FRAME_BYTES_MAX, idle_ms_max=IDLE_MS_MAX),
)
