"""`Rpc`: services bound and called over one event bus.

Strategy: one object for both sides. It keeps the registry of bindings: other transports (connections, gRPC) find the
same dispatchers as the bus does.

Knows no transport except the bus.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random, SystemRandom
from typing import Any, Final, NamedTuple

from hutong.bus.bus import EventBus
from hutong.bus.delivery.addresses import ADDRESS_CHARACTERS_MAX
from hutong.bus.durable.addresses import is_durable
from hutong.bus.envelope.message import REPLY_PREFIX
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.rpc.call import IncomingCall
from hutong.rpc.calling.caller import Caller
from hutong.rpc.delivery.caller.retry import Reliability
from hutong.rpc.delivery.deduplication import Deduplication
from hutong.rpc.delivery_port import Memory
from hutong.rpc.descriptions.description import ServiceDescription, describe
from hutong.rpc.errors import CallFailed
from hutong.rpc.figures import ServiceStatistics
from hutong.rpc.idle_time import REFERENCE_IDLE_DEFAULT, idle_ms_of
from hutong.rpc.over_bus.endpoint import BusEndpoint
from hutong.rpc.over_bus.exports import Exports, ReferenceContexts
from hutong.rpc.over_bus.temporaries import BindingTemporaries
from hutong.rpc.over_bus.temporary import ON_BUS, TEMPORARIES_MAX, Surroundings
from hutong.rpc.over_bus.transport import BusTransport
from hutong.rpc.serving.binding import Binding, DispatcherRotation, Registry
from hutong.rpc.serving.discovery import (
    DISCOVERY_ADDRESS,
    Discovery,
    RegistryDiscovery,
    ServiceEntry,
    all_statistics,
    entries_of,
)
from hutong.rpc.serving.dispatcher import Dispatcher
from hutong.rpc.serving.implementation import invocations
from hutong.rpc.serving.interceptors import Interceptor, chain_of
from hutong.rpc.tracing import CallTracer, dispatcher_for
from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
from hutong.runtime.loops.timers import LoopTimers
from hutong.runtime.runtime import Runtime

CLOSE_GRACE_S: Final = 10.0
INSTANCES_MAX: Final = 1_024  # of one binding

AnyInterceptor = Interceptor | Callable[[IncomingCall], object]


class Terms(NamedTuple):
    """On what terms a service is bound."""

    chain: tuple[Interceptor, ...] = ()
    memory: Memory | None = None
    has_debug_info: bool = False


class Rpc(Caller):
    """Made on the event loop of the bus; `node.rpc` is a node's own.

    Everything but `go_from_thread` is for that loop, or for handlers in contexts of the same runtime that call proxies.

    References and streams are closed when they have been idle for `reference_idle_time` seconds; None is without end.
    """

    def __init__(
        self,
        bus: EventBus,
        runtime: Runtime,
        *,
        reference_idle_time: float | None = REFERENCE_IDLE_DEFAULT,
        random: Random | None = None,
    ) -> None:
        """`random`, by default the machine's, is for pauses, names of sessions, and addresses of objects."""
        random = random or SystemRandom()
        idle_ms = idle_ms_of(reference_idle_time)
        self._reliability = Reliability(
            runtime.clock, runtime.wheel, chance=random.random, random_bits=random.getrandbits
        )
        super().__init__(BusTransport(bus), make_reliable=self._reliability)
        self.bus = bus
        self.runtime = runtime
        self.registry = Registry()
        self._is_found = False
        self._discovery: Binding | None = None
        self._wheel = TimerWheel(runtime.clock.monotonic_ms())
        self._timers = LoopTimers(self._loop, self._wheel, runtime.clock)
        waits: WaitTable[None] = WaitTable("temporaries_max", self._wheel, TEMPORARIES_MAX)
        self.temporaries = Surroundings(bus, self.registry, runtime.clock, waits, idle_ms, random.getrandbits)
        self.reference_contexts = ReferenceContexts(runtime)
        self._exporter = Exports(self.temporaries, self.reference_contexts, self, lambda: ON_BUS, TEMPORARIES_MAX)
        bus.add_close_hook(self.close)

    async def bind(
        self,
        protocol: Callable[..., Any],
        implementation: object,
        *,
        address: str | None = None,
        context: Context | None = None,
        interceptors: Sequence[AnyInterceptor] = (),
        deduplicate: Deduplication | None = None,
        memory: Memory | None = None,
        debug_info: bool = False,
        instances: int = 1,
    ) -> Binding:
        """Answer calls at `address`, by default that of the declaration, with the implementation's methods.

        They run in `context`, by default the caller's, else a new one. With `instances` above 1 there are that many
        contexts, and calls go to each in turn; `context` then gives their kind. Several bindings of one address are
        called in turn as well. `debug_info` sends the cause of a fault to callers. With `deduplicate` the service
        remembers its calls in a topic of the bus's log, so that none with a request id is executed twice; `memory` is
        for an implementation of your own.

        Raises UsageError for an implementation that lacks a method or has another signature, or that is not async in a
        context where it must not block.
        """
        description = describe(protocol)
        place = _checked(address or description.address)
        chain = chain_of(interceptors, description.methods)
        given = context or current_context()
        contexts = self._contexts(description, given, instances)
        if deduplicate is not None:
            memory = deduplicate.memory(self.bus, self.runtime, place)
        terms = Terms(chain, memory, debug_info)
        await self._be_found()
        return await self._bind(description, implementation, place, contexts, terms, owns=given not in contexts)

    def set_tracer(self, tracer: CallTracer | None) -> None:
        """Report to it every call from now on, also those of services here. Raises UsageError after a `bind`."""
        # Dispatchers are made with or without tracing, so that untraced calls pay nothing for it.
        if self.registry.bindings:
            raise UsageError("calls are traced from the start or not at all: say so before a service is bound.")
        super().set_tracer(tracer)
        self.temporaries.tracer = tracer

    def services(self) -> list[ServiceEntry]:
        """The services bound here, by address.

        Others ask the service `hutong.rpc` (`hutong.rpc.serving.discovery.Discovery`).
        """
        return entries_of(self.registry)

    def statistics(self) -> list[ServiceStatistics]:
        """The calls of each method: counts, successes, times."""
        return all_statistics(self.registry)

    def find(self, address: str) -> DispatcherRotation | None:
        """For transports: the dispatchers at the address. On the loop of this `Rpc`."""
        return self.registry.find(address)

    async def close(self, grace: float = CLOSE_GRACE_S) -> None:
        """Unbind everything, and wait for calls under way for `grace` seconds at most. A second call does nothing."""
        bindings = [*self.registry.bindings, *([self._discovery] if self._discovery is not None else [])]
        if bindings:
            # All at once, so that the grace is one for all of them.
            await asyncio.gather(*[binding.unbind(grace) for binding in bindings])
        # Behind the unbinding: a call under way may itself be calling.
        self._reliability.close(CallFailed("the Rpc is closed"))
        if self._exporter is not None:
            self._exporter.close()
        self._leases.close()
        await asyncio.sleep(0)  # what they had opened is closed on this loop
        self._timers.close()

    async def __aenter__(self) -> "Rpc":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _bind(
        self,
        description: ServiceDescription,
        implementation: object,
        address: str,
        contexts: list[Context],
        terms: Terms,
        *,
        owns: bool,
    ) -> Binding:
        temporaries = BindingTemporaries(self.temporaries, self, has_debug_info=terms.has_debug_info)
        dispatchers = [self._dispatcher(description, implementation, one, terms, temporaries) for one in contexts]
        if terms.memory is not None:
            # Before the first call comes in: one that was answered before a restart must not run again.
            await terms.memory.open()
        binding = Binding(address, description, dispatchers, self.registry, owns_contexts=owns, memory=terms.memory)
        binding.on_unbind(temporaries.close)
        for dispatcher in dispatchers:
            endpoint = BusEndpoint(address, dispatcher)
            consumer = self.bus.consumer(address, endpoint.receive, context=dispatcher.context)
            consumer.is_traced = False  # the dispatcher's calls are
            consumer.settle()
            binding.on_unbind(consumer.unregister)
        return binding

    async def _be_found(self) -> None:
        """Bind the discovery service, with the first service that there is to discover."""
        if not self._is_found:
            # Set before the wait, so that a second `bind` meanwhile does not bind discovery twice.
            self._is_found = True
            discovery = RegistryDiscovery(self.registry)
            contexts = [self.runtime.context(name=DISCOVERY_ADDRESS, loop=0)]
            self._discovery = await self._bind(
                describe(Discovery), discovery, DISCOVERY_ADDRESS, contexts, Terms(), owns=True
            )
            del self.registry.bindings[self._discovery]  # it can be called, but does not list itself

    def _contexts(self, description: ServiceDescription, given: Context | None, instances: int) -> list[Context]:
        if type(instances) is not int or not 1 <= instances <= INSTANCES_MAX:
            raise UsageError(f"a binding has 1 to {INSTANCES_MAX} instances, not {instances!r}.")
        kind = given.kind if given is not None else ContextKind.EVENT_LOOP
        if kind is ContextKind.MULTI_WORKER:
            raise UsageError(
                "a service runs in a context of an event loop or a worker; bind it in a worker, with instances=N."
            )
        name = f"service {description.name}"
        if instances > 1:
            return [self.runtime.context(kind, name=f"{name} {number}") for number in range(instances)]
        return [given or self.runtime.context(name=name)]

    def _dispatcher(
        self,
        description: ServiceDescription,
        implementation: object,
        context: Context,
        terms: Terms,
        temporaries: BindingTemporaries,
    ) -> Dispatcher:
        may_block = context.kind is not ContextKind.EVENT_LOOP
        return dispatcher_for(self._tracer)(
            description,
            invocations(description, implementation, may_block=may_block),
            context,
            self.runtime.clock,
            interceptors=terms.chain,
            memory=terms.memory,
            has_debug_info=terms.has_debug_info,
            temporaries=temporaries,
        )


def _checked(address: str) -> str:
    if not isinstance(address, str) or len(address) > ADDRESS_CHARACTERS_MAX:
        raise UsageError(f"the address of a service is text of at most {ADDRESS_CHARACTERS_MAX} characters.")
    if is_durable(address) or address.startswith(REPLY_PREFIX):
        raise UsageError(f"{address!r} is no address for a service: durable addresses and the bus's own answer nobody.")
    return address
