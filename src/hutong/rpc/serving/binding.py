"""Bindings: a service bound at an address, with one dispatcher for each instance; and the registry of bindings.

Knows a transport only by the function that undoes a registration.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import LimitExceeded
from hutong.foundation.waiting.table import Owner
from hutong.rpc.descriptions.description import ServiceDescription
from hutong.rpc.figures import MethodFigures, ServiceStatistics, summed
from hutong.rpc.serving.dispatcher import Dispatcher

if TYPE_CHECKING:
    from hutong.rpc.delivery_port import Memory

SERVICES_MAX: Final = 1_000_000
"""Addresses with something bound to them, references and streams included."""


class DispatcherRotation:
    """The dispatchers at one address, in rotation. `is_empty` once all are gone: look the address up again.

    `only` is the one dispatcher, where there is one. What has an `owner` is for that one's connection alone.
    """

    __slots__ = ("_next", "address", "dispatchers", "only", "owner")

    def __init__(self, address: str, owner: Owner | None = None) -> None:
        self.address = address
        self.owner = owner
        self._set(())

    @property
    def is_empty(self) -> bool:
        return not self.dispatchers

    def next_dispatcher(self) -> Dispatcher:
        """The next in turn. Raises StopIteration if there is none."""
        return next(self._next)

    def add(self, dispatcher: Dispatcher) -> None:
        self._set((*self.dispatchers, dispatcher))

    def remove(self, dispatcher: Dispatcher) -> None:
        self._set(tuple([one for one in self.dispatchers if one is not dispatcher]))

    def _set(self, dispatchers: tuple[Dispatcher, ...]) -> None:
        self.dispatchers = dispatchers
        self.only = dispatchers[0] if len(dispatchers) == 1 else None
        self._next = itertools.cycle(dispatchers)


class Registry:
    """The bindings of all addresses. Any thread may query and change it."""

    def __init__(self) -> None:
        self._rotations: dict[str, DispatcherRotation] = {}
        self._lock = threading.Lock()
        self.bindings: dict[Binding, None] = {}
        self._counted: dict[Binding, None] = {}  # whose figures are not in `_ended`
        self._ended: dict[tuple[str, str], MethodFigures] = {}  # of bindings that are no more: (service, method)

    def find(self, address: str) -> DispatcherRotation | None:
        return self._rotations.get(address)

    def add(self, address: str, dispatcher: Dispatcher, owner: Owner | None = None) -> None:
        """Raises LimitExceeded."""
        with self._lock:
            if len(self._rotations) >= SERVICES_MAX:
                raise LimitExceeded("services_max", SERVICES_MAX)
            self._rotations.setdefault(address, DispatcherRotation(address, owner)).add(dispatcher)

    def count(self, binding: "Binding") -> None:
        """Count the calls of a new binding."""
        with self._lock:
            self._counted[binding] = None

    def keep_figures(self, binding: "Binding") -> None:
        """Keep the figures of a binding whose calls have ended. A second call does nothing."""
        with self._lock:
            if binding in self._counted:
                del self._counted[binding]
                for key, figures in _figures_of(binding):
                    _add(self._ended.setdefault(key, MethodFigures()), figures)
                    # A call that was given up never ends, and would count as under way for ever.
                    self._ended[key].ended_total = self._ended[key].requests_total

    def figures(self) -> dict[tuple[str, str], MethodFigures]:
        """The calls of each (service, method) since the start, at all addresses. No count ever falls."""
        with self._lock:
            sums = {key: copy(figures) for key, figures in self._ended.items()}
            counted = list(self._counted)
        for binding in counted:
            for key, figures in _figures_of(binding):
                _add(sums.setdefault(key, MethodFigures()), figures)
        return sums

    def remove(self, address: str, dispatcher: Dispatcher) -> None:
        """Does nothing for a dispatcher that is not there."""
        with self._lock:
            found = self._rotations.get(address)
            if found is not None:
                found.remove(dispatcher)
                # Dropped with its last dispatcher: addresses of references are used once, and would pile up.
                if found.is_empty:
                    del self._rotations[address]


class Binding:
    """A service that is bound. `await binding.unbind()` ends it."""

    def __init__(
        self,
        address: str,
        description: ServiceDescription,
        dispatchers: Iterable[Dispatcher],
        registry: Registry,
        *,
        owns_contexts: bool,
        memory: "Memory | None" = None,
    ) -> None:
        self.address = address
        self.description = description
        self.dispatchers = tuple(dispatchers)
        self._registry = registry
        self._owns_contexts = owns_contexts
        self._memory = memory
        self._home = asyncio.get_running_loop()
        self._undo: list[Callable[[], object]] = []  # what makes it reachable, done once
        self._end: asyncio.Future[None] | None = None
        for dispatcher in self.dispatchers:
            registry.add(address, dispatcher)
        registry.bindings[self] = None
        registry.count(self)
        if not owns_contexts:
            for dispatcher in self.dispatchers:
                dispatcher.context.add_close_hook(self._context_closes)

    @property
    def is_bound(self) -> bool:
        return self._end is None

    @property
    def in_flight(self) -> int:
        """Calls under way."""
        return sum([dispatcher.in_flight for dispatcher in self.dispatchers])

    @property
    def statistics(self) -> ServiceStatistics:
        return statistics_of(self.address, self.description, self.dispatchers)

    def on_unbind(self, undo: Callable[[], object]) -> None:
        """For transports: how to stop what makes the service reachable there."""
        self._undo.append(undo)

    async def unbind(self, grace: float | None = None) -> None:
        """Take no more calls, and wait for those under way; for `grace` seconds at most, if given.

        What then still runs in a context of the binding's own is cancelled, and fails with OutcomeUnknown. On the loop
        of its Rpc. A second call waits for the first. Must not be awaited by a call of the same service, which would
        wait for itself.
        """
        if self._end is None:
            self._end = asyncio.get_running_loop().create_future()
            try:
                await self._unbind(grace)
            finally:
                self._end.set_result(None)
        else:
            # Shielded: a caller that gives up must not cancel the unbinding of the first.
            await asyncio.shield(self._end)

    async def _unbind(self, grace: float | None) -> None:
        self._leave()
        with suppress(TimeoutError):
            # Dispatchers are drained one after the other, within one grace for all.
            async with asyncio.timeout(grace):
                for dispatcher in self.dispatchers:
                    await _drained(dispatcher)
        for dispatcher in self.dispatchers:
            if self._owns_contexts:
                await dispatcher.context.close()
            else:
                dispatcher.context.remove_close_hook(self._context_closes)
        await self._forget()

    async def _context_closes(self) -> None:
        """Let the context cancel running calls after this returns."""
        self._leave()
        # A context may belong to another loop, and the memory belongs to this one.
        if asyncio.get_running_loop() is self._home:
            await self._forget()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._forget(), self._home))

    async def _forget(self) -> None:
        self._registry.keep_figures(self)
        memory, self._memory = self._memory, None
        if memory is not None:
            await memory.close()

    def _leave(self) -> None:
        """Make the service unreachable."""
        while self._undo:
            self._undo.pop()()
        for dispatcher in self.dispatchers:
            self._registry.remove(self.address, dispatcher)
        self._registry.bindings.pop(self, None)

    async def __aenter__(self) -> "Binding":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unbind()

    def __repr__(self) -> str:
        return f"<binding of {self.description.name} at {self.address!r}{'' if self.is_bound else ', unbound'}>"


def statistics_of(
    address: str, description: ServiceDescription, dispatchers: Iterable[Dispatcher]
) -> ServiceStatistics:
    """The figures of an address. Read without a lock: each is a number that was right a moment ago."""
    every = list(dispatchers)
    methods = [summed(name, [dispatcher.served[name].figures for dispatcher in every]) for name in description.methods]
    unknown = sum([dispatcher.unknown_actions_total for dispatcher in every])
    return ServiceStatistics(address, description.name, description.version, len(every), unknown, methods)


def _figures_of(binding: Binding) -> Iterator[tuple[tuple[str, str], MethodFigures]]:
    for dispatcher in binding.dispatchers:
        for name, served in dispatcher.served.items():
            yield (binding.description.name, name), served.figures


def _add(total: MethodFigures, figures: MethodFigures) -> None:
    total.requests_total += figures.requests_total
    total.ended_total += figures.ended_total
    total.errors_total += figures.errors_total
    total.processing_us_total += figures.processing_us_total


async def _drained(dispatcher: Dispatcher) -> None:
    """Return when no call of the dispatcher is under way any more."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def idle() -> None:
        dispatcher.idle_handler = None
        dispatcher.end()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, future)

    def close(_: None) -> None:  # calls queued in the context before this have started: they came in time
        dispatcher.close()
        if dispatcher.in_flight:
            dispatcher.idle_handler = idle
        else:
            idle()

    try:
        dispatcher.context.run(close, None)
    except RuntimeError:  # the context has ended, and what ran in it
        return
    await future


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
