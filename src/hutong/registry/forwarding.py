"""Changes in a cluster: the leader of the topic carries them out, other nodes hand theirs to it.

    POST /subjects/s/versions ──▶ node 2 ──▶ node 1, which leads `_schemas`
                                    │            decides, appends, waits until it is committed
                         reads it there ◀── answer
                                    ▼
                                 answers: a read at node 2 has it from now on

Strategy: which node leads is known from the metadata. Where that changes meanwhile, or nobody leads, a change is tried
again until the time is over: one that was not recorded, and one that may be, if a second attempt changes nothing more.

Decides nothing.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, ProtocolError, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation, settle_future
from hutong.foundation.waiting.table import WaitTable
from hutong.registry.changes import (
    Change,
    ChangeAnswer,
    decode_change,
    decode_outcome,
    encode_change,
    encode_outcome,
    is_repeatable,
)
from hutong.registry.store import TOPIC, SchemaStore
from hutong.registry.values import NotRecorded, RegistryCode, UnknownOutcome
from hutong.registry.writer import RegistryWriter
from hutong.wire.buffer import Buffer

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView

PART: Final = "schema registry"
CHANGE_MS_MAX: Final = 10_000
AGAIN_MS: Final = 100
WAITS_MAX: Final = 10_000
HANDED_OVER_MAX: Final = 1_000  # changes of other nodes that are not answered yet


class ClusterChanges:
    """Carries out changes of this node's clients, and those that other nodes hand over, from `start` to `close`."""

    def __init__(
        self, cluster: "ClusterView", store: SchemaStore, writer: RegistryWriter, clock: Clock, wheel: TimerWheel
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._writer = writer
        self._clock = clock
        self._pauses: WaitTable[None] = WaitTable("changes of schemas that are tried again", wheel, WAITS_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._cluster.serve_part(PART, self._handed_over)

    def close(self, error: HutongError) -> None:
        self._cluster.serve_part(PART, None)
        self._pauses.close(error)
        for task in self._tasks:
            task.cancel()

    async def carry_out(self, change: Change) -> ChangeAnswer:
        """The answer of the node that writes. Raises Refused."""
        if self._cluster.is_alone:
            return await self._writer.carry_out(change)
        await self._store.catch_up()
        deadline_ms = self._clock.monotonic_ms() + CHANGE_MS_MAX
        while True:
            try:
                if self._store.is_led_here:
                    return await self._writer.carry_out(change)
                return await self._asked(change)
            except (NotRecorded, UnknownOutcome) as error:
                may_repeat = isinstance(error, NotRecorded) or is_repeatable(change)
                if not may_repeat or self._clock.monotonic_ms() >= deadline_ms:
                    raise
            await self._pause()

    async def _asked(self, change: Change) -> ChangeAnswer:
        """Have the leader carry it out."""
        leader = self._store.leader
        if leader == NO_LEADER:
            raise NotRecorded(f"Nobody leads {TOPIC} at this moment; try again.")
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._cluster.ask_part(leader, PART, encode_change(change), partial(settle_future, done))
        try:
            answer = decode_outcome(await done)
        except HutongError as error:
            raise _translated(error, leader) from error
        # So that a client that asks the same node next finds it. Elsewhere it may be seen a moment later in any case.
        with suppress(Refused):
            await self._store.refreshed()
        return answer

    async def _pause(self) -> None:
        try:
            await self._pauses.wait(None, deadline_ms=self._clock.monotonic_ms() + AGAIN_MS)
        except Expired:
            return
        except HutongError as error:
            raise Refused(RegistryCode.FORWARDING, f"The change was not recorded: {error}") from error

    def _handed_over(self, question: Buffer, then: Continuation[bytes]) -> None:
        """Handle another node's change. It has checked its client's rights."""
        if len(self._tasks) >= HANDED_OVER_MAX:
            then(LimitExceeded("HANDED_OVER_MAX", HANDED_OVER_MAX))
            return
        try:
            change = decode_change(bytes(question))
        except ProtocolError as error:
            then(error)
            return
        task = asyncio.get_running_loop().create_task(self._answer(change, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, change: Change, then: Continuation[bytes]) -> None:
        try:
            outcome: ChangeAnswer | Refused = await self._writer.carry_out(change)
        except Refused as refused:
            outcome = refused
        then(encode_outcome(outcome))


def _translated(error: HutongError, leader: int) -> Refused:
    """The refusal of a node that has answered nothing of a registry, or else what the registry there has said."""
    if isinstance(error, NotRecorded | UnknownOutcome):
        return error
    if isinstance(error, Refused) and error.code >= RegistryCode.INCOMPATIBLE:
        return error
    if isinstance(error, Refused):
        message = f"Node {leader} leads {TOPIC}: {error.message} Give every node schema_registry.listen."
        return Refused(RegistryCode.FORWARDING, message)
    return UnknownOutcome(f"Node {leader}, which leads {TOPIC}, has not answered; try again: {error}")
