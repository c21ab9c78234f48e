"""The node's metadata: its state topic, and everything on the node that lives by it.

Strategy: the parts that keep state in the metadata are added, with the beginnings of their keys. A node alone replays
the log at its start and writes it from then on. Among several nodes one leads the log and writes it; the others follow
it, and each part continues from what is applied when its node leads.

Decides nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hutong.broker.state.state_topic import Apply, StateTopic
from hutong.foundation.errors import CorruptData, HutongError
from hutong.foundation.waiting.pending import Continuation, settle_future

if TYPE_CHECKING:
    from hutong.broker.state.state_tail import FollowedStorage, TailPace
    from hutong.server.broker.environment import BrokerEnvironment

_log = logging.getLogger("hutong.node")


class StateAppliers:
    """The parts that live by the metadata. All of them are added before the first record comes."""

    def __init__(self) -> None:
        self._appliers: list[tuple[bytes, Apply]] = []

    def add(self, prefix: bytes, apply: Apply) -> None:
        """Give records whose keys begin like this to `apply`, in the order of the log; None as a value removes."""
        self._appliers.append((prefix, apply))

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Hand one record on."""
        for prefix, apply in self._appliers:
            if key.startswith(prefix):
                apply(key, value)


class NodeMetadata:
    """The metadata on this node. Parts are added to `appliers` and `on_lead` before the first record is read."""

    def __init__(self, topic: StateTopic) -> None:
        self.topic = topic
        self.appliers = StateAppliers()
        self.on_lead: list[Callable[[], None]] = []  # called when this node begins to write, all records applied
        topic.on_late = topic.on_record = self.appliers.apply
        topic.on_failure = _report

    async def replay(self) -> None:
        """Apply all records of a node alone, which leads. Raises CorruptData, StorageError."""
        await self.topic.replay(self.appliers.apply)

    def follow(self, storage: "FollowedStorage", refusal: HutongError, pace: "TailPace") -> None:
        """Apply what another node writes; changes here are refused. Also when the journal was opened anew."""
        self.topic.follow(storage, refusal, pace)

    def when_leading(self, then: Continuation[None]) -> None:
        """Apply all that the log has, which is committed, and write it from then on.

        `then` gets the refusal if the node has to follow meanwhile.
        """
        self.topic.when_leading(partial(self._led, then))

    async def lead(self) -> None:
        """`when_leading` to be awaited."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_leading(partial(settle_future, future))
        await future

    def _led(self, then: Continuation[None], error: HutongError | None) -> None:
        # In the call that made the topic accept appends: no request may come before the parts are ready for it.
        if error is None:
            for lead in self.on_lead:
                lead()
        then(error)


def pace_of(environment: "BrokerEnvironment") -> "TailPace":
    """The pace of tails on the node's loop."""
    from hutong.broker.state.state_tail import TailPace  # late: a node alone never needs it

    clock, wheel = environment.clock, environment.wheel
    return TailPace(environment.loop.call_soon, lambda wait_ms, call: wheel.add(clock.monotonic_ms() + wait_ms, call))


def _report(error: CorruptData) -> None:
    _log.critical(
        "The metadata of the cluster cannot be read any further, and this node acts on what it has: %s", error
    )
