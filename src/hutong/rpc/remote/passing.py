"""The objects that a client passes to services: what they need is made when the first one is passed.

Strategy: objects need contexts to run in, and streams that they return need a bus. A client with `services=` has those
of that Rpc; one without makes a small runtime of its own, whose threads start only when they are used. Objects belong
to the present connection of the client. During a call they belong to the call, which may be sent again over the next.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.rpc.serving.binding import DispatcherRotation, Registry

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.rpc.calling.caller import Caller
    from hutong.rpc.over_bus.exports import Exports, ReferenceContexts
    from hutong.rpc.over_bus.temporary import Surroundings, Temporary
    from hutong.rpc.rpc import Rpc
    from hutong.runtime.runtime import Runtime


class PassedObjects:
    """Implements `calling.references.Exporter` for one client, on its loop."""

    def __init__(
        self,
        caller: "Caller",
        services: "Rpc | None",
        clock: Clock,
        wheel: TimerWheel,
        *,
        connection: Callable[[], Owner | None],
        first_passed: Callable[[], object],
        references_max: int,
        idle_ms: int | None,
        random_bits: Callable[[int], int],
    ) -> None:
        """`connection` is the present one's owner; `first_passed` is called before the first object is bound."""
        self._caller = caller
        self._services = services
        self._clock = clock
        self._wheel = wheel
        self._connection = connection
        self._first_passed = first_passed
        self._references_max = references_max
        self._idle_ms = idle_ms
        self._random_bits = random_bits
        self._registry = Registry()
        self._own: tuple[Runtime, EventBus] | None = None
        self._surroundings: tuple[Surroundings, ReferenceContexts] | None = None
        self._exports: Exports | None = None

    def find(self, address: str) -> DispatcherRotation | None:
        """For incoming calls: an object that was passed, or a service that the client offers."""
        # No name of a service can hide an object: addresses of objects are UUIDs.
        found = self._registry.find(address)
        return self._services.find(address) if found is None and self._services is not None else found

    def export(self, protocol: type, value: object, *, is_repeated: bool) -> "Temporary":
        """Raises UsageError for an object that does not implement the Protocol, LimitExceeded."""
        if self._exports is None:
            from hutong.rpc.over_bus.exports import Exports

            around, contexts = self.surroundings()
            # Not tied to a channel: the call that passes it may be sent again over the next one.
            self._exports = Exports(around, contexts, self._caller, self._owner, self._references_max, is_tied=False)
            self._first_passed()
        return self._exports.export(protocol, value, is_repeated=is_repeated)

    def unpin(self, temporary: "Temporary", *, is_received: bool) -> None:
        if self._exports is not None:
            self._exports.unpin(temporary, is_received=is_received)

    def release(self, value: object) -> bool:
        return self._exports is not None and self._exports.release(value)

    def surroundings(self) -> "tuple[Surroundings, ReferenceContexts]":
        """The shared parts of what is bound here for the peer."""
        if self._surroundings is None:
            from hutong.rpc.over_bus.exports import ReferenceContexts
            from hutong.rpc.over_bus.temporary import TEMPORARIES_MAX, Surroundings

            runtime, bus = self._parts()
            waits: WaitTable[None] = WaitTable("temporaries_max", self._wheel, TEMPORARIES_MAX)
            around = Surroundings(bus, self._registry, self._clock, waits, self._idle_ms, self._random_bits)
            self._surroundings = around, ReferenceContexts(runtime)
        return self._surroundings

    def close(self) -> None:
        if self._exports is not None:
            self._exports.close()

    async def end(self) -> None:
        """Close what was made here."""
        self.close()
        own, self._own = self._own, None
        if own is not None:
            runtime, bus = own
            await bus.close()
            await runtime.close()

    def _parts(self) -> "tuple[Runtime, EventBus]":
        # The callbacks of a program with a runtime run on its loops, and its figures count them.
        if self._services is not None:
            return self._services.runtime, self._services.bus
        if self._own is None:
            from hutong.bus.bus import EventBus
            from hutong.runtime.runtime import Runtime

            runtime = Runtime(self._clock, blocked_limits=None)
            self._own = runtime, EventBus(runtime)
        return self._own

    def _owner(self) -> Owner:
        from hutong.rpc.over_bus.temporary import NO_CONNECTION

        owner = self._connection()
        return NO_CONNECTION if owner is None else owner  # an owner of nothing is falsy
