"""The coordinator of transactions on this node, replayed from its topic.

Strategy: as for groups (`group_coordinators`). It is loaded after them at the start of a node, since it carries out at
once what was decided: markers to topics and offsets, which must be there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.broker.broker import Broker
from hutong.broker.handling.node_facts import Coordination
from hutong.broker.topics.internal_topics import TRANSACTIONS_TOPIC
from hutong.foundation.machine_host import StatePort
from hutong.server.broker.coordinator_life import Apply, CoordinatorLife, NoState
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.broker.group_coordinators import GroupCoordinators, GroupLife
from hutong.server.configuration import translate
from hutong.transactions.driver import COORDINATOR_EPOCH, TransactionCoordinator
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.coordinators.broker_shard import BrokerShard
    from hutong.broker.coordinators.transaction_markers import TransactionMarkers
    from hutong.transactions.ports import ProducerIdPort


class TransactionLife(CoordinatorLife[TransactionCoordinator]):
    """The coordinator of transactions on this node. It completes those that are decided once it serves.

    A closed one answers COORDINATOR_NOT_AVAILABLE. Partitions refuse markers of an earlier epoch.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        producer_ids: "ProducerIdPort",
        markers: "TransactionMarkers",
        deletion_ms: Callable[[], int],
        coordination: Coordination,
        shard: int = 0,
    ) -> None:
        self._producer_ids = producer_ids
        self._markers = markers
        self._deletion_ms = deletion_ms
        self._coordination = coordination
        self._shard = shard
        super().__init__(environment, TRANSACTIONS_TOPIC, "transactions")

    def close(self) -> None:
        """Answer everything that waits, because the node stops. What is on its way to the log still gets there."""
        self.parts.close()

    def _set_code(self, code: ErrorCode) -> None:
        super()._set_code(code)
        self._coordination.transactions = code

    def _begin(self, parts: TransactionCoordinator) -> None:
        parts.start()

    def _end(self, parts: TransactionCoordinator) -> None:
        parts.close()

    def _closed(self) -> TransactionCoordinator:
        coordinator = self._made(NoState(), COORDINATOR_EPOCH)
        coordinator.close()
        return coordinator

    def _replay_of(self, parts: TransactionCoordinator) -> Apply:
        return parts.replay

    def _late_of(self, parts: TransactionCoordinator) -> Apply:
        return parts.apply_late

    def _make(self, state: StatePort, epoch: int) -> TransactionCoordinator:
        return self._made(state, self._markers.number_of(epoch, self._shard))

    def _made(self, state: StatePort, epoch: int) -> TransactionCoordinator:
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


def follow_coordinators(broker: "Broker | BrokerShard", groups: GroupLife, transactions: TransactionLife) -> None:
    """Let the broker have the coordinators of each moment."""

    def groups_swapped(parts: GroupCoordinators) -> None:
        broker.groups, broker.consumer_groups = parts.classic, parts.consumer
        broker.streams_groups = parts.streams
        if parts.share is not None:
            broker.share_groups = parts.share

    def transactions_swapped(coordinator: TransactionCoordinator) -> None:
        broker.transactions = coordinator

    groups.on_swap.append(groups_swapped)
    transactions.on_swap.append(transactions_swapped)
