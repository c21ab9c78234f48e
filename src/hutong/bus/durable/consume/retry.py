"""Retries: the delays between attempts, and the point at which a message is given up.

Strategy: exponential back-off with a ceiling, shortened by a random share so that consumers that failed together do not
come back together. Knows nothing of messages, clocks or chance: chance arrives as a number.
"""

import enum
from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import UsageError

DELAY_MAX: Final = 86_400  # seconds: a day


class Order(enum.Enum):
    """The scope of order: the messages that wait for the one in hand or in back-off."""

    PARTITION = "partition"  # all that follows in its partition: the order of the log
    KEY = "key"  # what follows with the same key; messages without a key wait for nobody


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts and the delays between. The defaults try for about 13 seconds.

    `attempts` counts the first one too; None tries for ever. The pause after the n-th failure is `first_delay`
    seconds times `factor` to the power n-1, at most `delay_max`, less a random share of up to `jitter` (0 to 1).
    `crashes` counts the ends of the process during this one message, before it is given up; None means for ever.
    Raises UsageError for values that make no sense.
    """

    attempts: int | None = 8
    first_delay: float = 0.1
    delay_max: float = 10.0
    factor: float = 2.0
    jitter: float = 0.2
    crashes: int | None = 3

    def __post_init__(self) -> None:
        if self.attempts is not None and self.attempts < 1:
            raise UsageError(f"Retry(attempts={self.attempts}): at least one attempt is made; None tries for ever.")
        if self.crashes is not None and self.crashes < 1:
            raise UsageError(f"Retry(crashes={self.crashes}): at least 1, or None for ever.")
        if not 0 <= self.first_delay <= self.delay_max <= DELAY_MAX:
            raise UsageError(f"Retry: 0 <= first_delay <= delay_max <= {DELAY_MAX} seconds (a day) is needed.")
        if not 1 <= self.factor <= 100 or not 0 <= self.jitter <= 1:
            raise UsageError("Retry: factor is from 1 to 100 and jitter from 0 to 1.")

    def gives_up_after(self, attempts: int) -> bool:
        return self.attempts is not None and attempts >= self.attempts

    def delay_ms(self, failures: int, chance: float) -> int:
        """The pause after this number of failures (1 or more); `chance` is from 0 up to 1."""
        grown = self.first_delay
        for _ in range(failures - 1):  # not a power: that overflows long before a patient consumer gives up
            grown = min(grown * self.factor, self.delay_max)
            if grown == self.delay_max or self.factor == 1 or not grown:
                break
        return round(min(grown, self.delay_max) * (1 - self.jitter * chance) * 1000)
