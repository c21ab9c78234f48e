"""The coordinator of transactions on this node, replayed from its topic.

Strategy: as for groups (`group_coordinators`). It is loaded after them at the start of a node, since it carries out at
once what was decided: markers to topics and offsets, which must be there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.broker.broker import Broker
from hutong.broker.handling.node_facts import Coordination
from hutong.broker.state.state_topic import StateTopic
from hutong.broker.topics.catalogue import TRANSACTIONS_TOPIC
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.machine_host import StatePort
from hutong.journal.log import PartitionLog
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.broker.group_coordinators import GroupCoordinators, GroupLife, NoState, load_in_background
from hutong.server.configuration import translate
from hutong.transactions.driver import COORDINATOR_EPOCH, TransactionCoordinator
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.transactions.ports import MarkerPort, ProducerIdPort


class TransactionLife:
    """The coordinator of transactions on this node: `load` makes it serve, `unload` ends that.

    `coordinator` is that of this moment. Before and after it is a closed one, which answers COORDINATOR_NOT_AVAILABLE.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        producer_ids: "ProducerIdPort",
        markers: "MarkerPort",
        deletion_ms: Callable[[], int],
        coordination: Coordination,
    ) -> None:
        self.on_swap: list[Callable[[TransactionCoordinator], None]] = []  # called with the new one
        self._environment = environment
        self._producer_ids = producer_ids
        self._markers = markers
        self._deletion_ms = deletion_ms
        self._coordination = coordination
        self._state: StateTopic | None = None  # of the one that serves, or that is being loaded
        self._coordination.transactions = ErrorCode.NOT_COORDINATOR
        self.coordinator = self._closed()

    async def load(self, log: PartitionLog, epoch: int = COORDINATOR_EPOCH) -> None:
        """Replay all transactions, serve them, and complete those that are decided.

        `epoch` is the leader epoch of the log: partitions refuse markers of an earlier one. Nothing happens where
        `unload` comes first. Raises CorruptData, StorageError.
        """
        self.unload()
        self._coordination.transactions = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._state = state = self._environment.state_topic(TRANSACTIONS_TOPIC, log)
        coordinator = self._make(state, epoch)
        try:
            await state.replay(coordinator.replay)
        except HutongError:
            # Its journal may be closed by now.
            if self._state is state:
                self.unload()
                raise
        if self._state is not state:
            return
        state.on_late = coordinator.apply_late
        self._swap(coordinator)
        self._coordination.transactions = ErrorCode.NONE
        coordinator.start()

    def load_soon(self, log: PartitionLog, epoch: int, failed: Callable[[], None]) -> None:
        """`load` while other work goes on, for a node that leads the log from now on. A failure is logged."""
        load_in_background(self._environment, "transactions", self.load(log, epoch), failed)

    def unload(self) -> None:
        """Serve no more: everything that waits is answered, and what is on its way to the log is given up."""
        state, self._state = self._state, None
        if state is None:
            return
        was_loading = self._coordination.transactions is not ErrorCode.NONE
        self._coordination.transactions = ErrorCode.NOT_COORDINATOR
        if not was_loading:
            before = self.coordinator
            # First the new one: an answer of the old one may lead to a question to the coordinator.
            self._swap(self._closed())
            before.close()
        state.close(OwnerGone("this node coordinates transactions no more"))

    def close(self) -> None:
        """Answer everything that waits, because the node stops. What is on its way to the log still gets there."""
        self.coordinator.close()

    def _swap(self, coordinator: TransactionCoordinator) -> None:
        self.coordinator = coordinator
        self._environment.sources.transactions = coordinator
        for swapped in self.on_swap:
            swapped(coordinator)

    def _closed(self) -> TransactionCoordinator:
        coordinator = self._make(NoState(), COORDINATOR_EPOCH)
        coordinator.close()
        return coordinator

    def _make(self, state: StatePort, epoch: int) -> TransactionCoordinator:
        return TransactionCoordinator(
            clock=self._environment.clock,
            timers=self._environment.wheel,
            state=state,
            producer_ids=self._producer_ids,
            markers=self._markers,
            settings=translate.transaction_settings(self._environment.settings),
            deletion_ms=self._deletion_ms,
            epoch=epoch,
        )


def follow_coordinators(broker: Broker, groups: GroupLife, transactions: TransactionLife) -> None:
    """Let the broker have the coordinators of each moment."""

    def groups_swapped(parts: GroupCoordinators) -> None:
        broker.groups, broker.consumer_groups = parts.classic, parts.consumer
        if parts.share is not None:
            broker.share_groups = parts.share

    def transactions_swapped(coordinator: TransactionCoordinator) -> None:
        broker.transactions = coordinator

    groups.on_swap.append(groups_swapped)
    transactions.on_swap.append(transactions_swapped)
