"""Call options: timeouts, delivery, headers and ids of a call.

Knows no transport. Invalid options raise when they are made.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypedDict

from hutong.bus.envelope.headers import Headers
from hutong.bus.options import TIMEOUT_MS_MAX, GivenHeaders

TIMEOUT_MS_DEFAULT: Final = 30_000  # as in Vert.x
RETRIES_DEFAULT: Final = 16
"""The number of retries within a call's time, for deliveries that retry."""
RETRIES_MAX: Final = 1_000

HeaderPairs = tuple[tuple[str, str], ...]


class Delivery(Enum):
    """Delivery semantics: how often the effect of a call may happen."""

    AT_MOST_ONCE = "at most once"  # sent once; never tried again, and nothing is remembered
    AT_LEAST_ONCE = "at least once"  # tried again under the same request id until it is answered or its time is over
    DEDUPLICATED = "at most once, deduplicated"  # tried again, and the service remembers what it has done


class GivenOptions(TypedDict, total=False):
    """The options of `with_options`, by keyword; see `CallOptions.changed`."""

    timeout: float | None
    headers: GivenHeaders
    retries: int | None
    request_id: str | None
    delivery: Delivery | None


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Options of calls. Made by `CallOptions()` and `changed(...)`, which raise TypeError or ValueError.

    `timeout_ms` is for the call as a whole, retries included, from 1 to TIMEOUT_MS_MAX. `retries` counts attempts after
    the first. `request_id` is the application's own (`hutong.rpc.new_request_id()`); without one, a delivery that needs
    ids makes its own.
    """

    timeout_ms: int = TIMEOUT_MS_DEFAULT
    headers: HeaderPairs = ()
    retries: int = RETRIES_DEFAULT
    request_id: str | None = None
    delivery: Delivery = Delivery.AT_MOST_ONCE

    def __post_init__(self) -> None:
        if not 1 <= self.timeout_ms <= TIMEOUT_MS_MAX:
            raise ValueError(f"timeout is between 0.001 and {TIMEOUT_MS_MAX / 1_000} seconds")
        if type(self.retries) is not int:
            raise TypeError(f"retries is a count, not {type(self.retries).__name__}")
        if not 0 <= self.retries <= RETRIES_MAX:
            raise ValueError(f"retries is between 0 and {RETRIES_MAX}, not {self.retries}")
        if self.request_id is not None and not isinstance(self.request_id, str):
            raise TypeError(f"request_id is a string, not {type(self.request_id).__name__}")
        if not isinstance(self.delivery, Delivery):
            raise TypeError(f"delivery is a hutong.rpc.Delivery, not {type(self.delivery).__name__}")

    def changed(
        self,
        *,
        timeout: float | None = None,
        headers: GivenHeaders = None,
        retries: int | None = None,
        request_id: str | None = None,
        delivery: Delivery | None = None,
    ) -> "CallOptions":
        """Return a copy with the given options replaced.

        `timeout` is in seconds; headers are added to the existing ones.

        A given header replaces all of the same name, in any case. A request id is for one call, so it is not kept.
        """
        changes: dict[str, Any] = {"request_id": request_id}
        if timeout is not None:
            changes["timeout_ms"] = _milliseconds(timeout)
        if headers is not None:
            changes["headers"] = _with(self.headers, headers)
        if retries is not None:
            changes["retries"] = retries
        if delivery is not None:
            changes["delivery"] = delivery
        return replace(self, **changes)


def _milliseconds(timeout: float) -> int:
    if type(timeout) not in (int, float):
        raise TypeError(f"timeout is a number of seconds, not {type(timeout).__name__}")
    if not 0.001 <= timeout <= TIMEOUT_MS_MAX / 1_000:  # neither holds for NaN
        raise ValueError(f"timeout is between 0.001 and {TIMEOUT_MS_MAX / 1_000} seconds, not {timeout}")
    return int(timeout * 1_000)


def _with(before: HeaderPairs, headers: GivenHeaders) -> HeaderPairs:
    given = headers.copy() if isinstance(headers, Headers) else Headers(headers or ())
    names = {name.lower() for name in given}
    return Headers([*(pair for pair in before if pair[0].lower() not in names), *given.items()]).pairs


DEFAULT: Final = CallOptions()
