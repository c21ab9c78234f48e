"""A temporary service: a stream or a reference, bound at its own address for one peer.

Strategy: the address is an unguessable UUID, and over a connection it is known to that connection alone. A temporary
service ends when its peer closes it, when it has been idle for long, when the peer's connection ends, or with what
opened it, whichever comes first. The idle time is one parked wait on the home loop, checked only when it is over.

While a call that passed an object is under way, the object is pinned: neither its idle time nor the end of the
connection releases it, since the call may be repeated over the next connection.

Registers temporary services on the bus; other transports find them in the registry.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from hutong.bus.bus import EventBus
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.waiting.table import Owner, ParkedWait, WaitTable
from hutong.rpc.over_bus.endpoint import BusEndpoint
from hutong.rpc.serving.dispatcher import Dispatcher
from hutong.rpc.tracing import CallTracer

if TYPE_CHECKING:
    from hutong.bus.delivery.consumer import Consumer
    from hutong.rpc.serving.binding import Registry

TEMPORARIES_MAX: Final = 100_000
"""Streams and references of one Rpc that are open at a time."""
ON_BUS: Final = Owner()
"""The owner of what is called over the bus: no connection finds it by its address."""
NO_CONNECTION: Final = Owner()
"""The owner of what was passed over a connection that is no more."""
NO_CONNECTION.end()


class Surroundings:
    """The shared parts of all temporary services of one Rpc or client. `waits` is for the home loop alone.

    `idle_ms` is None where nothing is closed for being idle. `random_bits` makes addresses.
    """

    def __init__(
        self,
        bus: EventBus,
        registry: "Registry",
        clock: Clock,
        waits: WaitTable[None],
        idle_ms: int | None,
        random_bits: Callable[[int], int],
    ) -> None:
        self.bus = bus
        self.registry = registry
        self.clock = clock
        self.waits = waits
        self.idle_ms = idle_ms
        self.random_bits = random_bits
        self.tracer: CallTracer | None = None
        self.open: set[Temporary] = set()
        self._lock = threading.Lock()
        self._counts: dict[Owner, int] = {}

    def count(self, owner: Owner, maximum: int) -> None:
        """Count one more of this owner. Raises LimitExceeded, before anything is made.

        Peers that never close what they open must not fill the memory, nor take everybody's share.
        """
        if len(self.open) >= TEMPORARIES_MAX:
            raise LimitExceeded("temporaries_max", TEMPORARIES_MAX)
        with self._lock:
            counted = self._counts.get(owner, 0)
            if counted >= maximum:
                raise LimitExceeded("references_per_connection_max", maximum)
            self._counts[owner] = counted + 1

    def uncount(self, owner: Owner) -> None:
        with self._lock:
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]


class Temporary:
    """One stream or reference. `open`, `close`, `pin` and `unpin` from any thread.

    `owner_of` returns what ends it: the peer's present connection, or ON_BUS.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        dispatcher: Dispatcher,
        owner_of: Callable[[], Owner],
        forget: "Callable[[Temporary], object]",
        clean_up: Callable[[], Any] | None = None,
    ) -> None:
        self.address = str(UUID(int=surroundings.random_bits(128), version=4))
        self.is_open = True
        self.pins = 0  # calls under way that have passed it
        self.references = 0  # how often it was passed and has not come back
        self._surroundings = surroundings
        self._dispatcher = dispatcher
        self._owner_of = owner_of
        self._owner = owner_of()
        self._counted = self._owner
        self._forget = forget
        self._do_clean_up = clean_up
        self._consumer: Consumer | None = None
        self._ticket: ParkedWait[None] | None = None

    def open(self, maximum: int, *, is_tied: bool = True) -> None:
        """Be found from now on; by the owner's connection alone, if it is tied to it. Raises LimitExceeded."""
        self._surroundings.count(self._counted, maximum)
        try:
            self._open(is_tied=is_tied)
        except BaseException:  # such as a bus that is closed: it must not stay counted
            self.close()
            raise

    def _open(self, *, is_tied: bool) -> None:
        around, dispatcher = self._surroundings, self._dispatcher
        dispatcher.last_used_us = around.clock.monotonic_us()
        dispatcher.closing_handler = self.close
        around.open.add(self)
        around.registry.add(self.address, dispatcher, self._owner if is_tied else None)
        # Over a connection it is found in the registry; a consumer would let all of the bus in.
        if self._owner is ON_BUS:
            endpoint = BusEndpoint(self.address, dispatcher)
            self._consumer = around.bus.consumer(self.address, endpoint.receive, context=dispatcher.context)
            self._consumer.is_traced = False
            self._consumer.settle()
        around.bus.on_home_loop(self._park)

    def close(self) -> None:
        """Be found no more; then let it clean up, in its context."""
        if not self.is_open:
            return
        self.is_open = False
        around, dispatcher = self._surroundings, self._dispatcher
        around.open.discard(self)
        around.uncount(self._counted)
        self._forget(self)
        around.registry.remove(self.address, dispatcher)
        if self._consumer is not None:
            self._consumer.unregister()
        around.bus.on_home_loop(self._unpark)
        try:
            dispatcher.context.run(self._clean_up, None)
        except RuntimeError:  # the context has ended, and what ran in it
            return

    def unpin(self) -> None:
        """A call that passed it is over. Its idle time begins with the last of them."""
        self.pins -= 1
        if not self.pins and not self.close_if_dropped():
            around = self._surroundings
            self._dispatcher.last_used_us = around.clock.monotonic_us()
            around.bus.on_home_loop(self._settle)

    def returned(self, count: int) -> None:
        """The peer has dropped `count` references to it."""
        self.references -= count
        self.close_if_dropped()

    def close_if_dropped(self) -> bool:
        """Close it if nobody can call it, and no call that passes it is under way."""
        if self.pins or self.references > 0:
            return False
        self.close()
        return True

    def _settle(self) -> None:
        """On the home loop: from now on it ends with the connection that the call was answered on."""
        if self.is_open and not self.pins and (owner := self._owner_of()) is not self._owner:
            self._unpark()
            self._owner = owner
            self._park()

    def _clean_up(self, _: None) -> Any:
        dispatcher = self._dispatcher
        dispatcher.close()
        dispatcher.end()
        return None if self._do_clean_up is None else self._do_clean_up()

    def _park(self) -> None:
        """On the home loop: until it has been idle for long enough, or its peer's connection ends."""
        if not self.is_open:
            return
        around, due_ms = self._surroundings, None
        if around.idle_ms is not None:
            due_ms = self._dispatcher.last_used_us // 1_000 + around.idle_ms
            # From now on: that time may be over already, and would wake it again and again.
            if self._is_used:
                due_ms = around.clock.monotonic_ms() + around.idle_ms
        # Parked under an owner that has ended it would be woken at once, and again without end.
        owner = None if self._owner is ON_BUS or (self.pins and self._owner.has_ended) else self._owner
        self._ticket = around.waits.park(self, self._woken, deadline_ms=due_ms, owner=owner)

    def _unpark(self) -> None:
        if self._ticket is not None:
            self._ticket.abandon()
            self._ticket = None

    @property
    def _is_used(self) -> bool:
        return self.pins > 0 or self._dispatcher.in_flight > 0

    def _woken(self, _: HutongError | None) -> None:
        self._ticket = None
        # The call decides when it is over: by then there may be another connection.
        if self.pins:
            self._park()
            return
        around = self._surroundings
        idle_us = around.clock.monotonic_us() - self._dispatcher.last_used_us
        # Used since it was parked, it is parked again for the rest: a call costs no timer.
        is_idle = around.idle_ms is not None and not self._is_used and idle_us >= around.idle_ms * 1_000
        if is_idle or self._owner.has_ended:
            self.close()
        else:
            self._park()
