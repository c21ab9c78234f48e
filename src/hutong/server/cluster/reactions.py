"""The broker's reactions to the cluster's news: standings, logs, the metadata's role, coordinators, the controller.

    journal opened   partitions get their logs anew; the metadata follows
    group changed    standings; clients that wait for another node's records are answered
    led              metadata: apply all, then control; offsets, transactions, share: load; else: serve
    stepped down     the same backwards, before the journal goes

Strategy: one place lists everything that happens to a group on this node. Decides nothing.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from hutong.broker.broker import Broker
from hutong.broker.state.log_storage import LogStorage
from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.lifetimes import METADATA_GROUP
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.nodes import ClusterNode
from hutong.foundation.errors import HutongError, Refused
from hutong.journal.journal import Journal
from hutong.replication.group_state import PartitionGroupState
from hutong.replication.leading.messages import ProposeSet
from hutong.server.broker.broker_verticle import STATE_LOG_ID, NodeCoordinators
from hutong.server.broker.coordinator_life import CoordinatorLife
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.broker.node_metadata import NodeMetadata, pace_of
from hutong.server.cluster.control import ClusterControl
from hutong.server.cluster.replica_troubles import ReplicaTroubles
from hutong.server.cluster.split_groups import SplitGroups
from hutong.server.cluster.standings import ClusterStandings
from hutong.wire.kafka.error_codes import ErrorCode

CONTROL_AGAIN_MS: Final = 100
LOAD_AGAIN_MS: Final = 500
_log: Final = logging.getLogger("hutong.cluster")
_NOT_CONTROLLER: Final = Refused(ErrorCode.NOT_CONTROLLER, "Another node is the controller.")


class ClusterReactions:
    """Implements `ClusterListener`. The parts that are made later are set before the driver starts."""

    topics: Topics
    metadata: NodeMetadata
    driver: ClusterDriver
    control: ClusterControl
    troubles: ReplicaTroubles
    splits: SplitGroups
    broker: Broker
    coordinators: NodeCoordinators
    lives: Mapping[str, CoordinatorLife[Any]]  # of coordinators, by the group that has their log
    reconfigure: Callable[[], None]  # gives journals the settings that were altered

    def __init__(self, environment: BrokerEnvironment, standings: ClusterStandings) -> None:
        self._environment = environment
        self._standings = standings
        self._journals = environment.sources.journals
        self._is_wired = False
        self.leave_clients: Callable[[], None] = lambda: None  # for the rest of this node's life
        self.on_news: Callable[[], None] = lambda: None  # called when this node may have come to know the metadata

    def wire(self) -> None:
        """React from now on: all parts are set."""
        self._is_wired = True
        self._standings.on_change.append(self.topics.standing_changed)
        for group, journal in self._journals.items():
            self.troubles.watch(group, journal)
        self._follow_metadata()

    def nodes_changed(self, live: Mapping[int, ClusterNode]) -> None:
        self._standings.live_changed(self.driver.groups, live)
        self.control.nodes_changed(live)

    def doubted_changed(self, doubted: frozenset[int]) -> None:
        self._standings.doubted = doubted
        self._standings.live_changed(self.driver.groups, self.driver.live)

    def group_changed(self, state: PartitionGroupState) -> None:
        self._standings.group_changed(state, self.driver.live)
        self.on_news()
        if state.name == METADATA_GROUP and self._is_wired:
            self.troubles.controller_changed()

    def journal_opened(self, group: str, journal: Journal) -> None:
        self._journals[group] = journal
        if not self._is_wired:
            return
        self.topics.rebind(group)
        self.troubles.watch(group, journal)
        self.broker.congestion.watch(group, journal)
        self.reconfigure()
        if group == METADATA_GROUP:
            self._follow_metadata()

    def led(self, group: str, epoch: int) -> None:
        _log.info("this node leads %s in epoch %d.", group, epoch)
        if group == METADATA_GROUP:
            self.metadata.when_leading(self._metadata_led)
            return
        self._standings.set_led_here(group, is_led_here=True)
        self._load(group, epoch)
        for log_id in self.topics.orphans_of(group):
            self._journals[group].delete_log(log_id)
        self.splits.led()

    def _load(self, group: str, epoch: int) -> None:
        """Load the coordinators that have their state in this group, if there are any."""
        life = self.lives.get(group)
        if life is not None:
            failed = partial(self._load_later, group, epoch)
            life.load_soon(self._journals[group].log(STATE_LOG_ID), epoch, failed)

    def _load_later(self, group: str, epoch: int) -> None:
        """Load again: a read may fail once, and nobody else coordinates while this node leads."""

        def again() -> None:
            replica = self.driver.replicas[group]
            if replica.is_leading and replica.state is not None and replica.state.epoch == epoch:
                self._load(group, epoch)

        self._environment.wheel.add(self._environment.clock.monotonic_ms() + LOAD_AGAIN_MS, again)

    def stepped_down(self, group: str) -> None:
        _log.info("this node leads %s no more.", group)
        self._standings.set_led_here(group, is_led_here=False)
        if group == METADATA_GROUP:
            self.control.end()
            self.metadata.topic.step_down(_NOT_CONTROLLER)
            return
        life = self.lives.get(group)
        if life is not None:
            life.unload()
        else:
            self.coordinators.share.stepped_down(group)

    def journal_failed(self, group: str, error: HutongError) -> None:
        _log.critical("this node's replica of %s has failed: %s", group, error)
        self.on_news()
        # It will hear of no new leader, and a client that asks it would get the same old answer for ever.
        if group == METADATA_GROUP:
            self.leave_clients()
        if self._is_wired:
            self.troubles.failed(group)

    def group_dropped(self, group: str) -> None:
        self._journals.pop(group)
        self.troubles.forget(group)
        self.broker.congestion.go_on(group)

    def proposed(self, state: PartitionGroupState, proposal: ProposeSet) -> None:
        self.control.propose(state, proposal)

    def controller_failed(self) -> None:
        """Control anew once it is known which decisions hold: one that failed may be committed later."""
        failed, topic = self.control.controller, self.metadata.topic

        def again() -> None:
            topic.when_applied(topic.end_offset, applied)

        def applied(error: HutongError | None) -> None:
            # It may have stepped down meanwhile, and lead again.
            if error is None and failed is not None and self.control.controller is failed:
                self.control.end()
                self.control.begin()

        # Later: what failed at once would fail at once again.
        self._environment.wheel.add(self._environment.clock.monotonic_ms() + CONTROL_AGAIN_MS, again)

    def _metadata_led(self, error: HutongError | None) -> None:
        if error is not None:
            return  # it has stepped down meanwhile
        self._standings.set_led_here(METADATA_GROUP, is_led_here=True)
        self.control.begin()
        self.splits.drop_ownerless()
        self.on_news()

    def _follow_metadata(self) -> None:
        log = self._journals[METADATA_GROUP].log(STATE_LOG_ID)
        self.metadata.follow(LogStorage(log), _NOT_CONTROLLER, pace_of(self._environment))
