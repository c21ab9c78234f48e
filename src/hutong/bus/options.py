"""Delivery options: headers, codec and timeout of a message, as one object or as keywords of a call.

Strategy: keywords become the same object, so that the bus has one kind of options. The unit of time is the second, as
asyncio has it; timers and frames use whole milliseconds, which the object has ready.

Knows no bus; a wrong option raises where the options are made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hutong.bus.envelope.headers import Headers
from hutong.foundation.errors import UsageError

TIMEOUT_MS_DEFAULT: Final = 30_000  # as in Vert.x
TIMEOUT_DEFAULT: Final = TIMEOUT_MS_DEFAULT / 1000
TIMEOUT_MS_MAX: Final = (1 << 31) - 1  # 24 days
GivenHeaders = Headers | Mapping[str, str] | Iterable[tuple[str, str]] | None
"""The keyword `headers` of a call: a dict, pairs where names repeat, or Headers."""


def _milliseconds(timeout: object) -> int:
    # A bool is an int to Python, and `timeout=True` would be one second.
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise UsageError(f"timeout is a number of seconds, such as 2.5, not {type(timeout).__name__}.")
    if not 0 < timeout <= TIMEOUT_MS_MAX / 1000:  # NaN is not either
        raise UsageError(f"timeout is above 0 and at most {TIMEOUT_MS_MAX // 1000} seconds, not {timeout}.")
    # Rounded, since 1.1 * 1000 is a little more than 1100; and never 0: timers wait at least 1 ms.
    return max(1, min(round(timeout * 1000), TIMEOUT_MS_MAX))


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Options of one delivery, for any number of uses: headers are copied with each message.

    `timeout` is the time in seconds that a request waits for its reply, at most TIMEOUT_MS_MAX. `codec_name` names the
    codec of the body; without it the body's type decides. `local_only` keeps a message within the process. Without
    `is_traced` the bus's tracer gets no report of it, since its sender reports it. `timeout_ms` is computed. Raises
    TypeError, and UsageError for a wrong timeout.
    """

    timeout: float = TIMEOUT_DEFAULT
    headers: Headers | None = None
    codec_name: str | None = None
    local_only: bool = False
    is_traced: bool = True
    timeout_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "timeout_ms", _milliseconds(self.timeout))
        if self.headers is not None and not isinstance(self.headers, Headers):
            raise TypeError(f"headers are Headers({{...}}), not {type(self.headers).__name__}")
        if self.codec_name is not None and not isinstance(self.codec_name, str):
            raise TypeError(f"codec_name is the name of a registered codec, not {type(self.codec_name).__name__}")


DEFAULT: Final = DeliveryOptions()


def given_options(
    options: DeliveryOptions, headers: GivenHeaders = None, codec: str | None = None, timeout: float | None = None
) -> DeliveryOptions:
    """The options of a call: those that it was given, or those that its keywords make.

    Raises UsageError for both at once and for a wrong value.
    """
    if not isinstance(options, DeliveryOptions):
        raise UsageError(
            f"options are DeliveryOptions(...), not {type(options).__name__}; "
            "keywords are shorter: headers={...}, codec='NAME', and timeout=SECONDS of a request."
        )
    if headers is None and codec is None and timeout is None:
        return options
    # Merged, it would be unclear which of two headers or timeouts counts.
    if options is not DEFAULT:
        raise UsageError("headers, codec and timeout are given as keywords or in DeliveryOptions(...), not in both.")
    if codec is not None and not isinstance(codec, str):
        raise UsageError(f"codec is the name of a registered codec, not {type(codec).__name__}.")
    return DeliveryOptions(
        TIMEOUT_DEFAULT if timeout is None else timeout, None if headers is None else _headers(headers), codec
    )


def _headers(headers: object) -> Headers:
    if isinstance(headers, Headers):
        return headers
    try:
        return Headers(headers)  # type: ignore[arg-type]  # anything else raises
    except (TypeError, ValueError) as error:
        reason = str(error) if isinstance(headers, Mapping) else f"this is {type(headers).__name__}"
        raise UsageError(f"headers are strings by name, such as headers={{'user': 'mei'}}; {reason}.") from None
