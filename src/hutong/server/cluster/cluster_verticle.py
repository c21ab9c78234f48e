"""A broker that is a node of a cluster.

Strategy: the same broker as of a node alone, with other beginnings. Its journals are replicas; its metadata follows the
controller's; its coordinators come and go with what it leads. Start: open the journals, register, follow the metadata
until this node is in sync, accept clients, and let the others know where. End: the other way round, and leave at once,
so that others lead what this node has led.

Decides nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from random import Random
from typing import Final

from msgspec import structs

from hutong.broker.coordinators.producer_ids import ProducerIds
from hutong.broker.dispatch.forwarded import ForwardedRequests
from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.handling.node_facts import NodeIdentity
from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.internal_topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from hutong.broker.topics.lifetimes import (
    METADATA_GROUP,
    OFFSETS_GROUP,
    SHARE_GROUP,
    TRANSACTIONS_GROUP,
)
from hutong.cluster.controller.commands import CommandReply, HandOverLeaders
from hutong.cluster.controller.driver import ControllerDriver
from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.image import ClusterImage
from hutong.cluster.lease import LeaderLease
from hutong.cluster.metadata_machine import METADATA_NAME, MetadataElection
from hutong.cluster.nodes import ClusterNode
from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.network import PeerNetwork, PeerTls
from hutong.cluster.records import CLUSTER_PREFIX, GROUP_PREFIX, MOVE_PREFIX, SPLIT_PREFIX, decode_name
from hutong.foundation.errors import ExitCode, Expired, HutongError, OwnerGone, StorageShortage, UsageError
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.share.delivery.progress import ProgressVersions
from hutong.journal.append.replicator import Replicator
from hutong.journal.journal import Journal
from hutong.replication.driver import GroupReplica
from hutong.replication.settings import COMMIT_TOLD_MS, ReplicationSettings
from hutong.server.broker.broker_verticle import BrokerVerticle
from hutong.server.cluster.asking_again import AskingAgain
from hutong.server.cluster.assembly import (
    cluster_secret,
    description_of,
    links_shown,
    peer_tls,
    why_not_joined,
)
from hutong.server.cluster.control import AppliedDecisions, ClusterControl
from hutong.server.cluster.copy_rate import CopyRate
from hutong.server.cluster.disk_space import DiskReports
from hutong.server.cluster.election_holds import ElectionHolds
from hutong.server.cluster.founding import difference_from, founding_of, groups_of_cluster
from hutong.server.cluster.kafka_questions import KafkaQuestions
from hutong.server.cluster.lean_groups import LeanGroups
from hutong.server.cluster.leases import LeaseKeeper
from hutong.server.cluster.reactions import ClusterReactions
from hutong.server.cluster.replica_troubles import ReplicaTroubles
from hutong.server.cluster.sharded_coordinators import ShardedCoordinators
from hutong.server.cluster.share_progress import RoutedProgress
from hutong.server.cluster.split_groups import SplitGroups
from hutong.server.cluster.standings import ClusterStandings
from hutong.server.cluster.view import ClusterBrokerView
from hutong.server.cluster.yielding import YieldingLeaders, is_handed_over
from hutong.server.monitoring.sources import ClusterSources

NODES_MAX: Final = 15
"""All nodes replicate the metadata, so a record of it waits for all that are in sync."""
HAND_OVER_MS_MAX: Final = 2_000  # a node that stops does not wait longer for a controller
NOWHERE: Final = ("", 0)
_log: Final = logging.getLogger("hutong.cluster")


class ClusterBrokerVerticle(BrokerVerticle):
    """A broker that is a node of a cluster. `listeners` are open once the metadata of the cluster is known."""

    _driver: ClusterDriver | None = None
    _network: PeerNetwork | None = None
    _leases: LeaseKeeper | None = None
    _requests: ForwardedRequests | None = None
    _progress: RoutedProgress | None = None
    _asking: AskingAgain | None = None
    _disk_reports: DiskReports | None = None
    _joining: WaitTable[None] | None = None
    _is_join_step_done: Callable[[], bool]  # of what the start waits for there
    _splits: SplitGroups | None = None
    _leaving: "asyncio.Task[None] | None" = None  # clients, as the metadata's journal has failed
    _is_serving = False  # True from the first client on

    async def start(self) -> None:
        """Recover, join, follow, accept clients."""
        settings = self._settings.cluster
        secret, tls = cluster_secret(settings.secret_file), peer_tls(settings)
        names = groups_of_cluster(settings)
        self._prepare(names)
        standings = ClusterStandings(names, self._settings.node.id, self._clock)
        self._image = ClusterImage()
        self._reactions = reactions = ClusterReactions(self._environment, standings)
        driver = self._driver = reactions.driver = self._make_driver(reactions)
        network = self._network = self._make_network(driver, secret, tls)
        driver.peers = network
        self._leases = self._make_leases(driver, network, standings)
        await self._open_replicas(names)
        self._sources.replicas = driver.replicas
        self._sources.live_nodes = lambda: len(driver.live)
        self._sources.set_changes = lambda: (standings.shrinks_total, standings.expands_total)
        self._sources.cluster = self._figures(driver, network, self._leases, standings)
        await self._wire(standings, settings.slots)
        cluster_id = await driver.start(
            self._folder.cluster_id, self._make_election(driver), may_join=self._folder.was_new
        )
        self._folder.join_cluster(cluster_id)
        reactions.broker.identity = NodeIdentity(driver.own.node, cluster_id)
        # Others may link with this node only now that it can tell them which cluster it belongs to.
        network.identity = replace(network.identity, cluster_id=cluster_id)
        listens_at = await self._bound(network)
        volume, wheel = partial(self._ports.volume_bytes, self._folder.path), self._environment.wheel
        self._disk_reports = disk = DiskReports(volume, settings.free_bytes_min, self._clock, wheel)
        driver.describe(description_of(settings, listens_at, {}, version("hutong"), disk.space))
        await self._joined()
        assert self._splits is not None
        self._splits.remove_leftovers()
        await self._listen(reactions.broker)
        self._is_serving = True
        reactions.leave_clients = self._leave_clients
        listeners = {opened.name: opened.advertised for opened in self.listeners}
        driver.describe(description_of(settings, listens_at, listeners, version("hutong"), disk.space))
        disk.start(lambda space: driver.describe(structs.replace(driver.own.description, disk=space)))

    def _leave_clients(self) -> None:
        """Close all connections of clients, and accept no more, so that they turn to the other nodes."""
        assert self._listeners is not None
        self._leaving = self._leaving or self.context.loop.create_task(self._listeners.drain())

    def _make_driver(self, reactions: ClusterReactions) -> ClusterDriver:
        incarnation = int.from_bytes(self._ports.random_bytes(8), "big") >> 1
        node, settings = self._settings.node.id, self._settings.cluster
        nowhere = description_of(settings, NOWHERE, {}, "")
        return ClusterDriver(
            ClusterNode(node, incarnation, structs.replace(nowhere, origin=self._folder.origin)),
            coordinator=self._ports.open_coordinator(settings, node, self._clock, self.context.loop),
            clock=self._clock,
            timers=self._environment.wheel,
            listener=reactions,
        )

    def _make_network(self, driver: ClusterDriver, secret: bytes | None, tls: PeerTls | None) -> PeerNetwork:
        own = driver.own
        return PeerNetwork(
            self.context.loop,
            clock=self._clock,
            wheel=self._environment.wheel,
            identity=PeerIdentity(self._folder.cluster_id, own.node, own.incarnation, version("hutong")),
            secret=secret,
            tls=tls,
            open_socket=self._ports.open_socket,
            listener=driver,
            chance=Random(self._ports.random_bytes(8)).random,
            random_bytes=self._ports.random_bytes,
            paths=self._ports.peer_paths,
        )

    def _figures(
        self, driver: ClusterDriver, network: PeerNetwork, leases: LeaseKeeper, standings: ClusterStandings
    ) -> ClusterSources:
        return ClusterSources(
            links=lambda: links_shown(network.figures, self._image.forgotten),
            is_connected=lambda: driver.session is SessionState.CONNECTED,
            lapsed_leases=lambda: leases.lapsed_total,
            elections=lambda: standings.elections_total,
            election_us=standings.election_us,
        )

    def _make_leases(self, driver: ClusterDriver, network: PeerNetwork, standings: ClusterStandings) -> LeaseKeeper:
        session_ms = self._settings.cluster.session_timeout_ms
        lease = LeaderLease(driver.own.node, session_ms, self._clock.monotonic_ms())
        wheel = self._environment.wheel
        keeper = LeaseKeeper(
            lease, standings, lambda: driver.session, lambda: driver.controller, network, self._clock, wheel
        )
        # Else a client would wait for as long as the node is cut off, and librdkafka asks nobody else meanwhile.
        keeper.on_lapse = lambda group: driver.replicas[group].refuse_waits()
        return keeper

    def _make_election(self, driver: ClusterDriver) -> MetadataElection:
        """The election, in which a node that was in a cluster founds no other one: a register may be lost."""
        settings = self._settings.cluster
        return MetadataElection(
            driver.own.node,
            driver.own.incarnation,
            replica_count=NODES_MAX,
            min_in_sync=settings.min_in_sync,
            may_found=driver.replicas[METADATA_GROUP].journal.epochs.last < 1,
        )

    async def _bound(self, network: PeerNetwork) -> tuple[str, int]:
        address = self._settings.cluster.listen
        try:
            return await network.listen(address.host, address.port)
        except OSError as error:
            raise UsageError(
                f"Cannot listen for other nodes at {address}: {error.strerror}; choose another with --cluster-listen.",
                ExitCode.UNAVAILABLE,
            ) from None

    async def _open_replicas(self, names: Sequence[str]) -> None:
        """Open all journals, as replicas that follow. Raises StorageError."""
        assert self._driver is not None
        driver = self._driver
        rate = self._settings.cluster.copied_bytes_per_second_max
        self._copy_rate = CopyRate(driver.own.node, self._admin.node_configs, rate)
        driver.replicas.update({name: self._make_replica(name) for name in names})
        await asyncio.gather(*(replica.open() for replica in driver.replicas.values()))

    def _make_replica(self, group: str) -> GroupReplica:
        assert self._driver is not None
        assert self._network is not None
        return GroupReplica(
            group,
            self._driver.own.node,
            self._driver.own.incarnation,
            open_journal=self._open_journal,
            links=self._network,
            events=self._driver,
            clock=self._clock,
            timers=self._environment.wheel,
            offload=self._journals.offload,
            disk=self._ports.disk,
            origin=self._folder.origin,
            pace=self._copy_rate.pace,
            settings=ReplicationSettings(
                lag_ms_max=self._settings.cluster.lag_ms_max,
                # Clients wait until nodes know of what they have changed.
                commit_told_ms=0 if group == METADATA_NAME else COMMIT_TOLD_MS,
            ),
        )

    async def _open_journal(self, group: str, replicator: Replicator, refusal: HutongError) -> Journal:
        folder = self._folder
        return await self._journals.open_journal(folder, group, self._deletion_ms, replicator, refusal, folder.origin)

    async def _wire(self, standings: ClusterStandings, slots: int) -> None:
        """Make the broker, whose metadata follows, and let it react to the cluster."""
        assert self._driver is not None
        driver, reactions = self._driver, self._reactions
        self._admin.node_configs.other_nodes = lambda: driver.live
        topics, producer_ids = self._make_metadata(standings.by_group, slots)
        self._start_metadata(topics, producer_ids)
        control = ClusterControl(driver, self._clock, self._environment.wheel, self._make_controller)
        control.producer_ids = producer_ids
        troubles = reactions.troubles = ReplicaTroubles(driver, control, self._clock, self._environment.wheel)
        self._splits = reactions.splits = SplitGroups(
            self._image,
            driver,
            control,
            standings,
            topics,
            self._journals,
            self._folder,
            self._ports.disk,
            self._make_replica,
            reactions,
            LeanGroups(self._image, driver, control, self._clock, self._environment.wheel),
        )
        for prefix in (GROUP_PREFIX, CLUSTER_PREFIX):
            self._metadata.appliers.add(prefix, self._apply_cluster)
        reactions.reconfigure = partial(self._work.configs_changed, self._admin.node_configs, self._journals)
        reactions.topics, reactions.metadata, reactions.control = topics, self._metadata, control
        clock, wheel = self._clock, self._environment.wheel
        shards = self._settings.cluster.coordinators
        asking = self._asking = AskingAgain(clock, wheel)
        self._sources.waits[asking.waits.name] = asking.waits
        view = ClusterBrokerView(driver, control, standings.by_group, clock, asking, lambda: self._questions, shards)
        producer_ids.reserve = control.reserve_producer_ids
        coordinators = self._idle_coordinators(topics, producer_ids)
        reactions.coordinators, reactions.lives = coordinators.made, coordinators.lives()
        reactions.broker = self._make_broker(view, topics, producer_ids, coordinators.made)
        coordinators.follow(reactions.broker)
        self._work.start(topics, self._admin.node_configs)
        inside = Listener("NODES", SecurityProtocol.PLAINTEXT, "", 0)
        self._requests = ForwardedRequests(reactions.broker, inside, self.context.loop.call_soon)
        self._questions = KafkaQuestions(self._requests, driver.own.node, self._listener_of)
        control.register()
        troubles.register()
        assert driver.peers is not None
        self._questions.register(driver.peers)
        assert self._progress is not None
        self._progress.register(driver.peers)
        reactions.wire()
        ElectionHolds(driver.own.node, standings, reactions.broker.congestion, clock, wheel)
        self._yielding = YieldingLeaders(driver, standings, reactions.broker.congestion, clock, wheel)
        self._yielding.register()

    def _idle_coordinators(self, topics: Topics, producer_ids: ProducerIds) -> ShardedCoordinators:
        """Make the coordinators, which are loaded when this node leads their logs."""
        assert self._driver is not None
        shards = self._settings.cluster.coordinators
        for name, group in (
            (OFFSETS_TOPIC, OFFSETS_GROUP),
            (TRANSACTIONS_TOPIC, TRANSACTIONS_GROUP),
            (SHARE_TOPIC, SHARE_GROUP),
        ):
            self._internal_logs(name, group, topics, shards)
        made = self._make_coordinators(topics, producer_ids, shards)
        versions = ProgressVersions(self._ports.random_bytes)
        assert self._asking is not None
        coordinators = ShardedCoordinators(self._environment, self._driver, made, versions, self._asking)
        self._progress = coordinators.progress
        self._make_share_groups(made, topics, coordinators.progress, versions)
        coordinators.begin()
        return coordinators

    def _make_controller(self) -> ControllerDriver:
        settings = self._settings.cluster
        decisions = AppliedDecisions(self._metadata.topic, self._apply_cluster)
        controller = ControllerDriver(
            self._clock, self._environment.wheel, decisions, self._control_failed, self._yielding.ask
        )
        founding = founding_of(settings)
        names = groups_of_cluster(self._image.settings or founding)
        controller.load(self._image.copy(), founding, [name for name in names if name != METADATA_GROUP])
        return controller

    def _control_failed(self, error: HutongError) -> None:
        _log.warning("this node could not store a decision as the controller: %s", error)
        self._reactions.controller_failed()

    def _apply_cluster(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of the controller."""
        assert self._driver is not None
        forgotten = set(self._image.forgotten)
        state = self._image.apply(key, value)
        # Not in the replay of a start, which has it again each time.
        for node in forgotten - self._image.forgotten if self._is_serving else ():
            _log.warning("node %d was forgotten, and is back: it is a new node, whatever its folder has.", node)
        if key.startswith(MOVE_PREFIX):
            self._copy_rate.moves_changed(self._image.moves.values())
        if state is not None:
            self._driver.group_changed(state)
        elif key.startswith(SPLIT_PREFIX):
            assert self._splits is not None
            self._splits.changed(decode_name(key, SPLIT_PREFIX))
        elif key.startswith(CLUSTER_PREFIX):
            self._driver.intents_changed(frozenset(self._image.drained), frozenset(self._image.forgotten))
        self._look_for_join()

    async def _joined(self) -> None:
        """Wait until this node knows the cluster's metadata.

        Raises UsageError where that takes too long, and StorageError where it cannot be stored here.
        """
        deadline_ms = self._clock.monotonic_ms() + self._settings.cluster.start_timeout_ms
        self._joining = WaitTable("joining", self._environment.wheel, 1)
        self._reactions.on_news = self._look_for_join
        await self._join_step(self._is_in_sync, deadline_ms)
        if (problem := difference_from(self._image.settings, self._settings.cluster)) is not None:
            raise UsageError(problem, ExitCode.CONFIG)
        # What is here may be more than what is committed, as far as this node knows; then the leader has to say so.
        applied: list[HutongError | None] = []
        self._metadata.topic.when_applied(None, lambda error: self._is_applied(applied, error))
        await self._join_step(lambda: bool(applied), deadline_ms)
        if applied[0] is not None:
            raise applied[0]

    def _is_applied(self, outcomes: list[HutongError | None], outcome: HutongError | None) -> None:
        outcomes.append(outcome)
        self._look_for_join()

    async def _join_step(self, is_done: Callable[[], bool], deadline_ms: int) -> None:
        """Wait for a part of the start, unless the metadata cannot be stored: then it would never be done."""
        self._is_join_step_done = is_done
        if (failure := self._metadata_failure()) is not None:
            raise failure
        try:
            if not is_done():
                assert self._joining is not None
                await self._joining.wait(None, deadline_ms=deadline_ms)
        except Expired:
            assert self._driver is not None
            state, timeout_ms = self._driver.groups.get(METADATA_GROUP), self._settings.cluster.start_timeout_ms
            reason = why_not_joined(state, self._folder.path, timeout_ms)
            raise UsageError(reason, ExitCode.TEMPFAIL) from None

    def _look_for_join(self) -> None:
        if self._joining is None or not len(self._joining):
            return
        failure = self._metadata_failure()
        if failure is not None:
            self._joining.fail_all(None, failure)
        elif self._is_join_step_done():
            self._joining.resume_all(None, None)

    def _metadata_failure(self) -> HutongError | None:
        """The reason for which this node cannot store the metadata. A shortage may be over later."""
        assert self._driver is not None
        if self._driver.has_lost_disk:
            return UsageError(
                f"{self._folder.path} has no records, and node {self._driver.own.node} has records of this cluster: is "
                "its disk mounted? If the disk is lost, start the other nodes first, and then this one.",
                ExitCode.NOINPUT,
            )
        failure = self._driver.replicas[METADATA_GROUP].failure
        return None if isinstance(failure, StorageShortage) else failure

    def _is_in_sync(self) -> bool:
        assert self._driver is not None
        state = self._driver.groups.get(METADATA_GROUP)
        own = self._driver.own
        if difference_from(self._image.settings, self._settings.cluster) is not None:
            return True  # it will not start
        if state is None or own.node not in state.in_sync or self._image.settings is None:
            return False
        # A leader has begun once its own records are in; of a follower the leader says so.
        return state.leader != own.node or self._reactions.control.is_controlling

    def _listener_of(self, name: str) -> Listener | None:
        """The listener of a name on this node, None while it is not open."""
        for opened in getattr(self, "listeners", ()):
            if opened.name == name:
                return Listener(name, opened.protocol, opened.advertised.host, opened.advertised.port)
        return None

    async def _end(self) -> None:
        """Leave the cluster, let open requests finish, then close everything in the opposite order of start."""
        driver, network = self._driver, self._network
        if driver is not None and self._is_serving:
            # The metadata go on: their leader has to store who leads the others.
            led = [name for name, each in driver.replicas.items() if each.is_leading and name != METADATA_GROUP]
            await self._yielding.wait_for_followers(led)
            await self._hand_over(driver)
            for name in led:
                self._yielding.end(name)
        for each in (self._disk_reports, self._leases, self._asking):
            if each is not None:
                each.close()
        if driver is not None:
            await driver.close()
        if network is not None:
            await network.close()
        # No replica acknowledges here any more: clients that wait ask the next leader at once.
        await self._close_replicas()
        if self._requests is not None:
            self._requests.close(OwnerGone("the node is stopping"))
        await super()._end()

    async def _hand_over(self, driver: ClusterDriver) -> None:
        """Let others lead what this node leads, so that clients need not wait until somebody notices that it is gone.

        The metadata go last: their leader has to store these decisions, and gives them up as it leaves.
        """
        node = driver.own.node
        replies: list[CommandReply | HutongError] = []
        handing: WaitTable[None] = WaitTable("handing over", self._environment.wheel, 1)

        def look() -> None:
            if replies and is_handed_over(replies[0], node, driver):
                handing.resume_all(None, None)

        def replied(reply: CommandReply | HutongError) -> None:
            replies.append(reply)
            look()

        self._reactions.on_news = look
        self._reactions.control.command(HandOverLeaders(node), replied)
        if replies and is_handed_over(replies[0], node, driver):
            return
        with suppress(Expired):  # without a controller the node goes all the same
            await handing.wait(None, deadline_ms=self._clock.monotonic_ms() + HAND_OVER_MS_MAX)

    async def _close_journals(self) -> None:
        await self._close_replicas()  # of a node that has not come to its cluster
        self._journals.close_threads()

    async def _close_replicas(self) -> None:
        if self._splits is not None:
            await self._splits.close()
        if self._driver is not None:
            await asyncio.gather(*(replica.close() for replica in self._driver.replicas.values()))
