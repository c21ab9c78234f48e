"""Delivery options: headers, codec and timeout of a message.

Knows no bus; a wrong option raises where the options are made.
"""

from dataclasses import dataclass
from typing import Final

from hutong.bus.envelope.headers import Headers

TIMEOUT_MS_DEFAULT: Final = 30_000  # as in Vert.x
TIMEOUT_MS_MAX: Final = (1 << 31) - 1  # 24 days


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Options of one delivery, for any number of uses: headers are copied with each message.

    `timeout_ms` is how long a request waits for its reply, from 1 to TIMEOUT_MS_MAX. `codec_name` names the codec of
    the body; without it the body's type decides. `local_only` keeps a message within the process. Without `is_traced`
    the bus's tracer gets no report of it, since its sender reports it. Raises TypeError or ValueError.
    """

    timeout_ms: int = TIMEOUT_MS_DEFAULT
    headers: Headers | None = None
    codec_name: str | None = None
    local_only: bool = False
    is_traced: bool = True

    def __post_init__(self) -> None:
        if type(self.timeout_ms) is not int:
            raise TypeError(f"timeout_ms is a whole number of milliseconds, not {type(self.timeout_ms).__name__}")
        if not 1 <= self.timeout_ms <= TIMEOUT_MS_MAX:
            raise ValueError(f"timeout_ms is between 1 and {TIMEOUT_MS_MAX}, not {self.timeout_ms}")
        if self.headers is not None and not isinstance(self.headers, Headers):
            raise TypeError(f"headers are Headers({{...}}), not {type(self.headers).__name__}")
        if self.codec_name is not None and not isinstance(self.codec_name, str):
            raise TypeError(f"codec_name is the name of a registered codec, not {type(self.codec_name).__name__}")


DEFAULT: Final = DeliveryOptions()
