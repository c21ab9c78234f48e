"""The log, as its consumers see it."""

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hutong.bus.durable.options import ConsumerOptions
from hutong.bus.durable.records import OutgoingRecord
from hutong.foundation.clock import Clock

if TYPE_CHECKING:
    from hutong.bus.durable.publishing import Settle


class ConsumerLog(Protocol):
    """The services of a log that its consumers use. `bus.durable.kafka` has the one there is."""

    @property
    def clock(self) -> Clock: ...

    def consumer_settings(self, options: ConsumerOptions) -> Mapping[str, Any]:
        """Settings of the client library for a consumer with these options."""

    def publish_record(self, record: OutgoingRecord, settle: "Settle") -> None:
        """Hand a record over; `settle` is called once with its outcome, on any thread. Raises HutongError."""

    def make_dead_letter_topic(self, name: str, then: Callable[[], None]) -> None:
        """Create the topic unless it exists; `then` is called on any thread, also after a failure."""

    def forget_consumer(self, consumer: Hashable) -> None:
        """The consumer has left its group."""
