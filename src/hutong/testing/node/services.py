"""Services of a test, on the event bus of an embedded node: bound and called from any thread and any event loop.

Strategy: one `Rpc` on the node's loop, made when it is first asked for. Binding is done there while the test waits, and
is quick; proxies are the `Rpc`'s own, whose calls may be awaited on any loop. What differs from a program: a call is
given up after 5 s instead of 30, and nothing at the end waits for calls under way.

Knows nothing of pytest.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from hutong.rpc.rpc import Rpc
from hutong.rpc.serving.binding import Binding

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.testing.node.embedded import EmbeddedNode

T = TypeVar("T")
P = ParamSpec("P")
TIMEOUT_S: Final = 5.0


class Services:
    """`EmbeddedNode.rpc`."""

    def __init__(self, node: "EmbeddedNode", bus: "EventBus") -> None:
        self.bus = bus
        self._node = node
        self._rpc: Rpc = node.thread.call(lambda: Rpc(bus, bus.runtime))

    @property
    def rpc(self) -> Rpc:
        """The `Rpc` itself, which belongs to the node's loop."""
        return self._rpc

    def bind(self, protocol: Callable[..., Any], implementation: object, **options: Any) -> Binding:
        """`Rpc.bind` with its options; bound on return. Raises what that raises."""
        __tracebackhide__ = True
        return self._node.run(self._rpc.bind(protocol, implementation, **options))

    def unbind(self, binding: Binding, grace: float = 0) -> None:
        """Unbind it; calls under way have `grace` seconds to end, and fail with OutcomeUnknown."""
        self._node.run(binding.unbind(grace))

    def proxy(self, protocol: Callable[..., T], *, timeout: float = TIMEOUT_S, **options: Any) -> T:
        """`Rpc.proxy` with its options. To be awaited on the test's loop; a plain thread takes `result`."""
        return self._rpc.proxy(protocol, timeout=timeout, **options)

    def result(self, method: Callable[P, Awaitable[T]], /, *arguments: P.args, **named: P.kwargs) -> T:
        """Call a method of a proxy and wait for its result, without an event loop: `result(orders.place, "tea")`.

        Raises what the call raises, and RuntimeError on a thread that runs an event loop.
        """
        __tracebackhide__ = True
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._rpc.go_from_thread(method, *arguments, **named).result()
        name = getattr(method, "__name__", "method")
        raise RuntimeError(f"result() would stop the event loop of this thread: write `await proxy.{name}(...)`")

    def close(self) -> None:
        """Unbind everything. What is still under way is cancelled."""
        self._node.run(self._rpc.close(grace=0))
