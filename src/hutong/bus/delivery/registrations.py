"""Registrations of consumers by address.

Strategy: an address has a tuple of its consumers (for publishes) and an endless round over them (for sends). When a
consumer comes or goes, the round is dropped and the tuple is replaced, under the lock; neither is ever changed. So a
publish sees all consumers of one moment, and a send from any thread takes one step of a round without a lock.

Knows no messages.
"""

import itertools
import threading
from collections.abc import Iterator
from typing import Final

from hutong.bus.delivery.consumer import Consumer, Handler
from hutong.foundation.errors import LimitExceeded
from hutong.runtime.contexts.contexts import Context

CONSUMERS_MAX: Final = 1_000_000
"""Registrations on one bus."""


class Registrations:
    """The consumers of one bus. Senders read the two tables themselves, which saves a call for each message."""

    __slots__ = ("by_address", "consumer_count", "lock", "rounds")

    def __init__(self) -> None:
        self.by_address: dict[str, tuple[Consumer, ...]] = {}
        self.rounds: dict[str, Iterator[tuple[Handler, Context]]] = {}
        self.lock = threading.Lock()
        self.consumer_count = 0

    def add(self, consumer: Consumer) -> None:
        """Register the consumer; the caller holds the lock. Raises LimitExceeded at CONSUMERS_MAX."""
        if self.consumer_count >= CONSUMERS_MAX:
            raise LimitExceeded("consumers_max", CONSUMERS_MAX)
        self.consumer_count += 1
        self._replace(consumer.address, (*self.by_address.get(consumer.address, ()), consumer))

    def remove(self, consumer: Consumer) -> None:
        with self.lock:
            present = self.by_address[consumer.address]
            at = present.index(consumer)  # thousands may listen at one address and leave together
            self.consumer_count -= 1
            self._replace(consumer.address, present[:at] + present[at + 1 :])

    def round_of(self, address: str) -> Iterator[tuple[Handler, Context]] | None:
        """The round of an address, made at the first send after its consumers have changed; None without consumers."""
        with self.lock:
            consumers = self.by_address.get(address)
            # Another thread may have made the round meanwhile; a second one would begin at the first consumer again.
            if consumers is not None and address not in self.rounds:
                # One step of `cycle` is one call in C, which the GIL makes atomic: senders on threads need no lock.
                self.rounds[address] = itertools.cycle([(consumer.deliver, consumer.context) for consumer in consumers])
            return self.rounds.get(address)

    def _replace(self, address: str, consumers: tuple[Consumer, ...]) -> None:
        # The round goes first: a send that misses it waits for the lock, and then sees the new consumers.
        self.rounds.pop(address, None)
        if consumers:
            self.by_address[address] = consumers
        else:
            # No empty entry stays behind: addresses may be short-lived and many, such as one for each client.
            self.by_address.pop(address, None)
