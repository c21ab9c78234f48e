"""Registrations of receivers by address: the consumers of this process, and those of other nodes.

Strategy: an address has a tuple of its receivers (for publishes) and an endless round over them (for sends). When a
receiver comes or goes, the round is dropped and the tuple is replaced, under the lock; neither is ever changed. So a
publish sees all receivers of one moment, and a send from any thread takes one step of a round without a lock.

The consumers of another node at an address are one receiver, since one frame reaches all of them. In the round it has a
turn for each of them.

Knows no messages, and nothing of what other nodes are.
"""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from hutong.bus.delivery.consumer import Consumer
from hutong.bus.envelope.message import Message
from hutong.bus.figures import AddressFigures
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import LimitExceeded

CONSUMERS_MAX: Final = 1_000_000
"""Registrations on one bus."""


class MessageQueue(Protocol):
    """The messages that wait for a receiver, each with what takes it. Its length may raise LimitExceeded."""

    def __len__(self) -> int: ...

    def append(self, queued: tuple[Callable[[Any], object], Any], /) -> None: ...


class ReceivingQueue(Protocol):
    """The services of a receiver's context: see `Context`, which is one."""

    @property
    def queue(self) -> MessageQueue: ...

    is_scheduled: bool

    def schedule(self) -> None: ...

    def run(self, handler: Callable[[Any], object], argument: Any) -> None: ...

    def run_queued(self) -> None: ...


class MessageReceiver(Protocol):
    """A consumer, or all consumers of another node at one address. `turns` counts them."""

    @property
    def address(self) -> str: ...

    @property
    def context(self) -> ReceivingQueue: ...

    @property
    def local_only(self) -> bool: ...

    @property
    def shares_bodies(self) -> bool: ...

    @property
    def is_remote(self) -> bool: ...

    @property
    def turns(self) -> int: ...

    def deliver(self, message: Message) -> object: ...

    def take_carefully(self, message: Message) -> object: ...

    def settle(self) -> None: ...


class Among(Enum):
    """The receivers that a message may go to."""

    ALL = "all"
    OF_PROCESS = "of process"  # those of this process: the message is for it alone
    OFFERED = "offered"  # those that other nodes may reach: the message came from one


class RegistrationListener(Protocol):
    """Hears of the consumers of this process, with the lock of the registrations held."""

    def consumer_added(self, consumer: Consumer) -> None: ...

    def consumer_removed(self, consumer: Consumer) -> None: ...

    def await_announced(self, consumer: Consumer, promise: Promise[None]) -> None:
        """Resume the promise once other nodes can find the consumer, which is not for this one alone."""


Turn: TypeAlias = tuple[Callable[[Message], object], ReceivingQueue]


class Registrations:
    """The receivers of one bus. Senders read the two tables themselves, which saves a call for each message."""

    __slots__ = ("_narrow_rounds", "by_address", "consumer_count", "listener", "lock", "rounds")

    def __init__(self) -> None:
        self.by_address: dict[str, tuple[MessageReceiver, ...]] = {}
        self.rounds: dict[str, Iterator[Turn]] = {}
        self.lock = threading.Lock()
        self.consumer_count = 0
        self.listener: RegistrationListener | None = None
        self._narrow_rounds: dict[Among, dict[str, Iterator[Turn]]] = {Among.OF_PROCESS: {}, Among.OFFERED: {}}

    def add(self, consumer: Consumer) -> None:
        """Register the consumer; the caller holds the lock. Raises LimitExceeded at CONSUMERS_MAX."""
        if self.consumer_count >= CONSUMERS_MAX:
            raise LimitExceeded("consumers_max", CONSUMERS_MAX)
        # First: it may refuse the address.
        if self.listener is not None:
            self.listener.consumer_added(consumer)
        self.consumer_count += 1
        self._replace(consumer.address, (*self.by_address.get(consumer.address, ()), consumer))

    def remove(self, consumer: Consumer) -> None:
        with self.lock:
            present = self.by_address[consumer.address]
            at = present.index(consumer)  # thousands may listen at one address and leave together
            self.consumer_count -= 1
            self._replace(consumer.address, present[:at] + present[at + 1 :])
            if self.listener is not None:
                self.listener.consumer_removed(consumer)

    def place_remote(self, address: str, receivers: Sequence[MessageReceiver]) -> None:
        """Have these receivers of other nodes at the address, in the place of all others of other nodes."""
        with self.lock:
            own = [receiver for receiver in self.by_address.get(address, ()) if not receiver.is_remote]
            self._replace(address, (*own, *receivers))

    def round_of(self, address: str) -> Iterator[Turn] | None:
        """The round of an address, made at the first send after its receivers have changed; None without receivers."""
        with self.lock:
            receivers = self.by_address.get(address)
            # Another thread may have made the round meanwhile; a second one would begin at the first receiver again.
            if receivers is not None and address not in self.rounds:
                self.rounds[address] = _round(receivers)
            return self.rounds.get(address)

    def narrow_round_of(self, address: str, among: Among) -> Iterator[Turn] | None:
        """The round over some of the receivers, None without any."""
        around = self._narrow_rounds[among].get(address)
        if around is not None:
            return around
        with self.lock:
            receivers = self.receivers_of(address, among)
            if not receivers:
                return None
            return self._narrow_rounds[among].setdefault(address, _round(receivers))

    @property
    def offered_rounds(self) -> Mapping[str, Iterator[Turn]]:
        """The rounds of `narrow_round_of` over receivers that other nodes may reach, as far as they are made."""
        return self._narrow_rounds[Among.OFFERED]

    def receivers_of(self, address: str, among: Among) -> tuple[MessageReceiver, ...]:
        receivers = self.by_address.get(address, ())
        if among is Among.ALL:
            return receivers
        is_offered = among is Among.OFFERED
        return tuple([each for each in receivers if not each.is_remote and not (is_offered and each.local_only)])

    def _replace(self, address: str, receivers: tuple[MessageReceiver, ...]) -> None:
        # The round goes first: a send that misses it waits for the lock, and then sees the new receivers.
        self.rounds.pop(address, None)
        for narrow in self._narrow_rounds.values():
            narrow.pop(address, None)
        if receivers:
            self.by_address[address] = receivers
        else:
            # No empty entry stays behind: addresses may be short-lived and many, such as one for each client.
            self.by_address.pop(address, None)


def address_figures(address: str, receivers: tuple[MessageReceiver, ...]) -> AddressFigures:
    """The figures of an address with these receivers."""
    own = [receiver for receiver in receivers if isinstance(receiver, Consumer)]
    return AddressFigures(
        address,
        len(own),
        sum([receiver.turns for receiver in receivers if receiver.is_remote]),
        sum([consumer.local_only for consumer in own]),
        sum([consumer.discarded_total for consumer in own]),
    )


def _round(receivers: tuple[MessageReceiver, ...]) -> Iterator[Turn]:
    turns = [(receiver.deliver, receiver.context) for receiver in receivers]
    # A node with several consumers comes once in each further pass, not several times in succession.
    for taken in range(1, max([receiver.turns for receiver in receivers])):
        turns += [(receiver.deliver, receiver.context) for receiver in receivers if receiver.turns > taken]
    # One step of `cycle` is one call in C, which the GIL makes atomic: senders on threads need no lock.
    return itertools.cycle(turns)
