"""The commands' way into a clustered bus: a look at what ZooKeeper has of it, and a node for one message.

Strategy: a look writes nothing, so no node hears of it. A message needs a node, which has no consumers and leaves when
its message is sent or answered.

Knows nothing of how results are shown.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hutong.foundation.errors import ExitCode, LimitExceeded, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hutong.bus.bus import EventBus
    from hutong.bus.clustered import ClusterTls
    from hutong.bus.clustered.membership.zookeeper.looking import ClusterContents
    from hutong.bus.envelope.message import Message
    from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
    from hutong.server.composition import ComposedNode

CONNECT_TIMEOUT_MS: Final = 5_000
"""Half of a node's patience: somebody waits for the command."""
R = TypeVar("R")


def look(cluster: str) -> "ClusterContents":
    """The nodes and registrations of the cluster. Raises UsageError."""
    from hutong.bus.clustered.membership.zookeeper.layout import parse_bus_cluster
    from hutong.bus.clustered.membership.zookeeper.opening import make_zookeeper_look
    from hutong.foundation.clock import SystemClock

    return make_zookeeper_look(parse_bus_cluster(cluster), _settings(), SystemClock()).contents()


def send(
    cluster: str, address: str, body: Any, headers: dict[str, str], tls: "ClusterTls | None", *, is_send: bool
) -> None:
    """Send or publish one message. Raises UsageError where nobody has got it."""
    losses = _Losses()

    async def carry_out(node: "ComposedNode") -> None:
        bus = node.bus
        taken = asyncio.Event()
        make: Callable[..., Any] = bus.sender if is_send else bus.publisher
        # Its one credit returns when the connections have the message, or when it is lost.
        producer = make(address, headers=headers, write_queue_max=1).drain_handler(taken.set)
        await producer.write(body)
        await taken.wait()
        if not sum([each.sent_total for each in node.bus_nodes()]):
            raise UsageError(f"The message to {address} has reached nobody: {losses.last}.", ExitCode.UNAVAILABLE)

    _carried_out(_joined(cluster, "127.0.0.1:0", (), tls), carry_out, losses, f"The message to {address}")


def request(
    cluster: str,
    address: str,
    body: Any,
    headers: dict[str, str],
    timeout_ms: int,
    listen: str,
    allow_plain: tuple[str, ...],
    tls: "ClusterTls | None",
) -> "Message":
    """Return the reply, for which the other node connects to `listen`. Raises UsageError."""

    async def carry_out(node: "ComposedNode") -> "Message":
        bus: EventBus = node.bus
        return await bus.request(address, body, headers=headers, timeout=timeout_ms / 1_000)

    return _carried_out(_joined(cluster, listen, allow_plain, tls), carry_out, _Losses(), f"The request to {address}")


class _Losses(logging.Handler):
    """The last warning of the bus, for the sentence of this command: nobody awaits a plain send."""

    last = "it was lost"

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "hutong.bus":
            self.last = record.getMessage()


def _carried_out(
    joined: "AbstractAsyncContextManager[ComposedNode]",
    work: "Callable[[ComposedNode], Coroutine[Any, Any, R]]",
    losses: _Losses,
    what: str,
) -> R:
    """Do the work as a node of the cluster. Raises UsageError with one sentence for each failure."""
    from hutong.bus.errors import FailureType, ReplyError

    async def run() -> R:
        async with joined as node:
            return await work(node)

    log = logging.getLogger("hutong")
    log.addHandler(losses)
    try:
        return asyncio.run(run())
    except ReplyError as error:
        has_nobody = error.failure_type is FailureType.NO_HANDLERS
        kind, code, reason = error.failure_type.name, error.failure_code, error.message
        exit_code = ExitCode.NOINPUT if has_nobody else ExitCode.UNAVAILABLE
        raise UsageError(f"{what} failed with {kind} ({code}): {reason.rstrip('.')}.", exit_code) from None
    except (ValueError, LimitExceeded) as error:  # what cannot be an address, a header or a body
        raise UsageError(f"{what} cannot be sent: {error}.", ExitCode.DATAERR) from None
    finally:
        log.removeHandler(losses)


@asynccontextmanager
async def _joined(
    cluster: str, listen: str, allow_plain: tuple[str, ...], tls: "ClusterTls | None"
) -> "AsyncIterator[ComposedNode]":
    from hutong.runtime.runtime import Runtime
    from hutong.server.bus.bus_part import BusPart
    from hutong.server.bus.cluster_part import BusClusterPart
    from hutong.server.composition import ComposedNode

    member = BusClusterPart(cluster, listen, allow_plain, zookeeper=_settings(), tls=tls)
    node = ComposedNode(Runtime(), [BusPart(), member])
    try:
        await node.start()
        yield node
    finally:
        await node.stop()


def _settings() -> "ZooKeeperSettings":
    from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings

    return ZooKeeperSettings(connect_timeout_ms=CONNECT_TIMEOUT_MS)
