"""`Rpc`: services bound and called over one event bus.

Strategy: one object for both sides. It keeps who is bound where, so that other doors (connections, gRPC) find the same
dispatchers as the bus does.

Knows no door but the bus.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from hutong.bus.bus import EventBus
from hutong.foundation.errors import UsageError
from hutong.rpc.binding import Binding, Registry, Round
from hutong.rpc.bus_door import BusDoor, ServiceFailure, ServiceFailureCodec
from hutong.rpc.bus_transport import BusTransport
from hutong.rpc.call import IncomingCall
from hutong.rpc.caller import Caller
from hutong.rpc.delivery.deduplication import Deduplication
from hutong.rpc.delivery.retry import Reliability
from hutong.rpc.delivery_port import MakeReliable, Memory
from hutong.rpc.description import ServiceDescription, describe
from hutong.rpc.dispatcher import Dispatcher
from hutong.rpc.implementation import invocations
from hutong.rpc.interceptors import Interceptor, chain_of
from hutong.runtime.contexts import Context, ContextKind, current_context
from hutong.runtime.runtime import Runtime

CLOSE_GRACE_S: Final = 10.0
INSTANCES_MAX: Final = 1_024  # of one binding

AnyInterceptor = Interceptor | Callable[[IncomingCall], object]


class Rpc(Caller):
    """Made on the event loop of the bus; `node.rpc` is a node's own. Everything but `go_from_thread` is for that loop,
    or for handlers in contexts of the same runtime that call proxies.
    """

    def __init__(self, bus: EventBus, runtime: Runtime, *, make_reliable: MakeReliable | None = None) -> None:
        super().__init__(BusTransport(bus), make_reliable=make_reliable or Reliability(runtime.clock, runtime.wheel))
        self.bus = bus
        self.runtime = runtime
        self.registry = Registry()
        bus.add_close_hook(self.close)
        with suppress(ValueError):  # another one of the same bus was first
            bus.register_codec(ServiceFailureCodec(), default_for=ServiceFailure)

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

        They run in `context`, by default the caller's, else one of their own. With `instances` above 1 there are that
        many contexts, and calls go to each in turn; `context` then says of what kind. Several bindings of one address
        are called in turn as well. `debug_info` tells callers of the cause of a fault. With `deduplicate` the service
        remembers its calls in a topic of the bus's log, so that none with a request id is executed twice; `memory` is
        for one of your own making.

        Raises UsageError for an implementation that lacks a method or has another signature, or that is not async in a
        context where it must not block.
        """
        description = describe(protocol)
        given = context or current_context()
        contexts = self._contexts(description, given, instances)
        chain = chain_of(interceptors, description.methods)
        if deduplicate is not None:
            memory = deduplicate.memory(self.bus, self.runtime, address or description.address)
        dispatchers = [
            self._dispatcher(description, implementation, one, chain, memory, has_debug_info=debug_info)
            for one in contexts
        ]
        if memory is not None:
            await memory.open()
        binding = Binding(
            address or description.address,
            description,
            dispatchers,
            self.registry,
            owns_contexts=given is None or instances > 1,
            memory=memory,
        )
        for dispatcher in dispatchers:
            self._open_bus_door(binding, dispatcher)
        return binding

    def find(self, address: str) -> Round | None:
        """For doors: who answers at the address. On the loop of this `Rpc`."""
        return self.registry.find(address)

    async def close(self, grace: float = CLOSE_GRACE_S) -> None:
        """Unbind everything, and wait for calls under way for `grace` seconds at most. A second call does nothing."""
        bindings = list(self.registry.bindings)
        if bindings:
            await asyncio.gather(*[binding.unbind(grace) for binding in bindings])

    async def __aenter__(self) -> "Rpc":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

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
        chain: tuple[Interceptor, ...],
        memory: Memory | None,
        *,
        has_debug_info: bool,
    ) -> Dispatcher:
        may_block = context.kind is not ContextKind.EVENT_LOOP
        calls = invocations(description, implementation, may_block=may_block)
        return Dispatcher(
            description,
            calls,
            context,
            self.runtime.clock,
            interceptors=chain,
            memory=memory,
            has_debug_info=has_debug_info,
        )

    def _open_bus_door(self, binding: Binding, dispatcher: Dispatcher) -> None:
        door = BusDoor(binding.address, dispatcher)
        consumer = self.bus.consumer(binding.address, door.receive, context=dispatcher.context)
        binding.on_unbind(consumer.unregister)
