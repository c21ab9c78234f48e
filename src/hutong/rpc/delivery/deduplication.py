"""Settings of a service that deduplicates calls: the topic, the retention time and the bounds.

Reaches the log by the bus alone.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import UsageError
from hutong.rpc.delivery.driver import CallMemory
from hutong.rpc.delivery.messages import MemorySettings

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.runtime.runtime import Runtime

KEEP_FOR_S_MIN: Final = 600.0  # callers leave a session that was idle for half of it (caller_session)
KEEP_FOR_S_MAX: Final = 30 * 86_400.0
TOPIC_PREFIX: Final = "rpc."


@dataclass(frozen=True, slots=True)
class Deduplication:
    """For `bind(..., deduplicate=Deduplication(...))`: no call with a request id is executed twice.

    `topic` is where the bus's log keeps it, by default the address of the service behind "rpc."; one process at a time
    may have it. `keep_for` is how many seconds an outcome is kept that its caller does not acknowledge; `clock_skew`
    how many seconds callers' clocks may be off, less than half of it. The others are bounds, at each of which a new
    call is refused with NotExecuted: calls and bytes that are kept, sessions of callers, calls in progress;
    `result_bytes` is the largest result that is kept. Raises UsageError for what makes no sense.
    """

    topic: str | None = None
    keep_for: float = 3_600.0
    clock_skew: float = 300.0
    calls: int = 200_000
    sessions: int = 100_000
    in_progress: int = 10_000
    kept_bytes: int = 64 << 20
    result_bytes: int = 512 << 10

    def __post_init__(self) -> None:
        if not KEEP_FOR_S_MIN <= self.keep_for <= KEEP_FOR_S_MAX:
            raise UsageError(f"Deduplication: keep_for is from {KEEP_FOR_S_MIN:g} to {KEEP_FOR_S_MAX:g} seconds.")
        if not 0 <= self.clock_skew < self.keep_for / 2:
            raise UsageError("Deduplication: clock_skew is from 0 to less than half of keep_for.")
        if min(self.calls, self.sessions, self.in_progress, self.kept_bytes) < 1:
            raise UsageError("Deduplication: bounds are at least 1.")
        if not 0 <= self.result_bytes <= 512 << 10:
            raise UsageError("Deduplication: result_bytes is from 0 to 524288, so that it fits into a record.")

    def memory(self, bus: "EventBus", runtime: "Runtime", address: str) -> CallMemory:
        """The memory of the service at `address`, to be opened. Raises UsageError where the bus has no log."""
        settings = MemorySettings(
            keep_for_ms=round(self.keep_for * 1_000),
            clock_skew_ms=round(self.clock_skew * 1_000),
            sessions_max=self.sessions,
            calls_max=self.calls,
            in_progress_max=self.in_progress,
            kept_bytes_max=self.kept_bytes,
            outcome_bytes_max=self.result_bytes,
        )
        table = bus.table(self.topic or TOPIC_PREFIX + address)
        return CallMemory(table, runtime.clock, runtime.wheel, settings)
