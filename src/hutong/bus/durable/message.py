"""A message of a durable address, as its handler sees it: a message of the bus that also knows its place in the log.

Knows no machine: what the handler sets on it is read when the handler has ended.
"""

from typing import Any, ClassVar

from hutong.bus.durable.consume.retry import DELAY_MAX
from hutong.bus.durable.records import StoredRecord, decode_body, decode_headers
from hutong.bus.envelope.headers import Headers
from hutong.bus.envelope.message import Message
from hutong.bus.options import DEFAULT, DeliveryOptions, GivenHeaders
from hutong.foundation.errors import HutongError, UsageError


class HandlerFailed(HutongError):
    """The failure that `message.fail(code, text)` records."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (code {code})" if text else f"code {code}")
        self.code = code


class DurableMessage(Message, eq=False, gc=True):
    """A message from `topic:NAME`. It is handled when its handler returns, and failed when that raises.

    `key` is bytes or None, `timestamp_ms` counts from 1970 (-1: none), `attempt` counts from 1.
    """

    _record: Any = None  # always a StoredRecord
    attempt: int = 1
    failure: HandlerFailed | None = None
    retry_after_ms: int | None = None

    is_send: ClassVar[bool] = False

    @classmethod
    def of(cls, address: str, record: StoredRecord, attempt: int) -> "DurableMessage":
        """Raises UnreadableBody where the body does not match its content type."""
        return cls(address, decode_body(record.value, record.headers), _record=record, attempt=attempt)

    @property
    def headers(self) -> Headers:
        if self._headers is None:
            self._headers = tuple(decode_headers(self._record.headers))
        return super().headers

    @property
    def header_pairs(self) -> tuple[tuple[str, str], ...]:
        return self.headers.pairs

    @property
    def key(self) -> bytes | None:
        return self._record.key  # type: ignore[no-any-return]

    @property
    def topic(self) -> str:
        return self._record.topic  # type: ignore[no-any-return]

    @property
    def partition(self) -> int:
        return self._record.partition  # type: ignore[no-any-return]

    @property
    def offset(self) -> int:
        return self._record.offset  # type: ignore[no-any-return]

    @property
    def timestamp_ms(self) -> int:
        return self._record.timestamp_ms  # type: ignore[no-any-return]

    def fail(self, code: int, text: str = "") -> None:
        """Say that this attempt failed; it counts once the handler has returned."""
        self.failure = HandlerFailed(code, text)

    def retry_after(self, delay: float) -> None:
        """Use this delay in seconds instead of the back-off's, if this attempt fails; at most a day."""
        if not 0 <= delay <= DELAY_MAX:
            raise ValueError(f"a pause is between 0 and {DELAY_MAX} seconds (a day), not {delay}")
        self.retry_after_ms = round(delay * 1000)

    def reply(
        self,
        body: Any = None,
        options: DeliveryOptions = DEFAULT,
        headers: GivenHeaders = None,
        codec: str | None = None,
    ) -> None:
        """Raises UsageError: who published a durable message awaits no reply."""
        raise UsageError(
            f"{self.address} is durable: nobody awaits a reply. Publish the answer to an address of its own."
        )
