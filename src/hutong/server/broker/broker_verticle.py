"""The broker as a verticle: Kafka clients on one side, the journals in the data folder on the other.

Strategy: everything that a package needs arrives by its constructor, from here. Start: lock the data folder, recover
the journals, replay the internal topics into the catalogue and the groups, then accept clients, so nobody connects to a
node that does not know its own state. End: accept no more, let open requests finish, close the journals with a clean
mark. One close hook does that, also after a start that failed half way.

Everything happens on the loop of the verticle's context. Decides nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.admin_state import AdminState
from hutong.broker.broker import Broker
from hutong.broker.configs.cleaner_configs import CLEANER_KEYS
from hutong.broker.configs.network_configs import NODE_KEYS, OF_LISTENERS
from hutong.broker.coordinators.producer_ids import ProducerIds
from hutong.broker.coordinators.transaction_markers import TransactionMarkers
from hutong.broker.dispatch.request_tracing import RequestTracer
from hutong.broker.fetch.read_actors import ReadActors
from hutong.broker.handling.cluster_view import AloneView, ClusterView
from hutong.broker.handling.node_facts import Coordination, NodeIdentity, NodeStorage
from hutong.broker.kafka import HANDLERS
from hutong.broker.produce.congestion import Congestion
from hutong.broker.quotas.meter import Meter
from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.group_standing import GroupStanding, standings_alone
from hutong.broker.topics.internal_topics import (
    DELAYED_TOPIC,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from hutong.broker.topics.lifetimes import (
    METADATA_GROUP,
    OFFSETS_GROUP,
    SHARE_GROUP,
    TRANSACTIONS_GROUP,
    group_of_slot,
)
from hutong.broker.topics.partition import Partition, Topic
from hutong.broker.topics.topic_config import effective
from hutong.broker.topics.topic_creation import TopicCreation
from hutong.foundation.clock import Clock
from hutong.foundation.errors import OwnerGone
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.share.delivery.progress import KeptProgress, ProgressPort, ProgressVersions
from hutong.journal.log import PartitionLog
from hutong.reactor.accept.gate import ConnectionGate
from hutong.runtime.verticles import Verticle
from hutong.server.broker.data.data_dir import DataFolder
from hutong.server.broker.data.journals import GROUPS, NodeJournals
from hutong.server.broker.data.upkeep import Upkeep
from hutong.server.broker.data.users import put_users
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.broker.group_coordinators import GroupCoordinators, GroupLife, group_configs
from hutong.server.broker.node_metadata import NodeMetadata
from hutong.server.broker.request_queues import RequestQueues
from hutong.server.broker.share_coordinators import ShareGroupParts, load_share_groups, make_share_groups
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.broker.transaction_coordinators import TransactionLife, follow_coordinators
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Settings
from hutong.server.listeners.authenticators import Authenticators
from hutong.server.listeners.kafka_listeners import KafkaListeners
from hutong.server.listeners.plans import OpenListener
from hutong.server.monitoring.sources import Sources

if TYPE_CHECKING:
    from hutong.broker.delays.record_timer import RecordTimer
    from hutong.broker.telemetry.receiver import Telemetry
    from hutong.server.listeners.web_users import WebUsers
    from hutong.server.outgoing.metrics import MetricsExport

STATE_LOG_ID: Final = 0  # the one log of each state group; topics' logs are numbered from 1
_CREATIONS_MAX: Final = 10_000
_PRODUCER_ID_WAITS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class ShardLives:
    """The coordinators of one shard's keys. They serve once they are loaded; `coordination` says which do."""

    groups: GroupLife
    transactions: TransactionLife
    coordination: Coordination


@dataclass(slots=True)
class NodeCoordinators:
    """The coordinators of one node, and those who write for them and read their members' shares."""

    shards: Sequence[ShardLives]  # one, unless there are several nodes
    markers: TransactionMarkers
    read_actors: ReadActors
    share: ShareGroupParts = field(init=False)  # set when they are open


class BrokerVerticle(Verticle):
    """Topics, groups and journals of one node. Once it has started, `listeners` are open for clients.

    It touches the machine through `ports`. Its journals and all other figures are added to `sources`. Its start raises
    UsageError where the folder or the address cannot be used, and StorageError where the disk cannot.
    """

    listeners: tuple[OpenListener, ...]

    def __init__(
        self,
        settings: Settings,
        ports: SystemPorts,
        clock: Clock,
        sources: Sources,
        gate: ConnectionGate | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        """`users` get these passwords, by name, before anybody can connect."""
        self._settings = settings
        self._ports = ports
        self._clock = clock
        self._sources = sources
        self._gate = gate
        self._users = dict(users or {})
        self._admin = AdminState(
            settings.node.id, translate.topic_defaults(settings), ports.random_bytes, translate.token_limits(settings)
        )
        self.has_served = False  # set once every part of the node is open
        self.tracer: RequestTracer | None = None  # set before the start, where requests are traced
        # Each is None until the start has come so far; a start that fails ends with what there is.
        self._data_dir: DataFolder | None = None
        self._upkeep: Upkeep | None = None
        self._shards: Sequence[ShardLives] = ()
        self._share: ShareGroupParts | None = None
        self._authenticators: Authenticators | None = None
        self._listeners: KafkaListeners | None = None
        self._export: MetricsExport | None = None
        self._delays: RecordTimer | None = None  # made with the first use
        self._topic_creation: TopicCreation | None = None

    async def start(self) -> None:
        """Recover, replay, accept clients."""
        self._prepare(GROUPS)
        await self._journals.open(self._folder, self._deletion_ms)
        topics, producer_ids = self._make_metadata(standings_alone(GROUPS, self._settings.node.id))
        await self._metadata.replay()
        self._start_metadata(topics, producer_ids)
        # Before the listeners open: a user of the settings could otherwise be refused for a moment.
        await put_users(self._admin.scram, self._users, self._journals.offload)
        coordinators = await self._load_coordinators(topics, producer_ids)
        self._work.start(topics, self._admin.node_configs)
        await self._listen(self._make_broker(AloneView(self._settings.node.id), topics, producer_ids, coordinators))

    @property
    def _folder(self) -> DataFolder:
        assert self._data_dir is not None, "the folder is open"
        return self._data_dir

    @property
    def _work(self) -> Upkeep:
        assert self._upkeep is not None, "the folder is open"
        return self._upkeep

    def _prepare(self, groups: Sequence[str]) -> None:
        """Make what needs no disk, and lock the folder. `groups` are the partition groups of this node."""
        home = self.context.home
        self._environment = BrokerEnvironment(
            self._settings, self.context.loop, home.wheel, self._clock, self._sources, self._ports
        )
        if self._settings.telemetry.endpoint:
            from hutong.server.outgoing.metrics import metrics_export  # late: few nodes have one

            self._export = metrics_export(self._settings.telemetry, self.context.loop, self._clock, self._ports)
        self._journals = NodeJournals(self._environment, groups)
        self._queues = RequestQueues(self._environment, self._journals.device)
        self.context.add_close_hook(self._end)  # before anything is opened, so that a failed start closes it again
        self._data_dir = self._ports.open_folder(self._settings.node.data_dir, self._ports.random_bytes)
        self._upkeep = Upkeep(self._environment, self._data_dir)
        self._deletion_ms = self._upkeep.deletion_clock.now_ms

    def _make_broker(
        self, view: ClusterView, topics: Topics, producer_ids: ProducerIds, coordinators: "NodeCoordinators"
    ) -> Broker:
        settings, queues, first = self._settings, self._queues, coordinators.shards[0]
        broker = Broker(
            api_keys=tuple(HANDLERS),
            identity=NodeIdentity(settings.node.id, self._folder.cluster_id),
            cluster=view,
            settings=translate.broker_settings(settings),
            clock=self._clock,
            topics=topics,
            producer_ids=producer_ids,
            groups=first.groups.parts.classic,
            consumer_groups=first.groups.parts.consumer,
            streams_groups=first.groups.parts.streams,
            group_configs=self._group_configs,
            share_groups=coordinators.share.groups[0],
            share_deliveries=coordinators.share.deliveries,
            share_progress=coordinators.share.kept[0],
            share_sessions=coordinators.share.sessions,
            share_fetches=coordinators.share.fetches,
            transactions=first.transactions.parts,
            transaction_markers=coordinators.markers,
            fetches=queues.fetches,
            fetch_sessions=queues.fetch_sessions,
            congestion=Congestion(self._sources.journals, queues.held_producers),
            examinations=queues.examinations,
            long_requests=queues.long_requests,
            disk_reads=queues.disk_reads,
            read_actors=coordinators.read_actors,
            storage=_storage(self._folder, self._ports),
            admin=self._admin,
            request_times=translate.request_times(settings),
            meter=Meter(self._admin.quotas, self._clock, queues.throttled, translate.quota_window_ms(settings)),
            authorizer=translate.authorizer(settings, self._admin.acls.decisions, self._clock),
            tracer=self.tracer,
            coordination=first.coordination,
            telemetry=self._make_telemetry(),
        )
        broker.topic_creation = self._topic_creation = TopicCreation(broker, self._environment.wheel)
        broker.delays = partial(self._delays_of, broker)
        follow_coordinators(broker, first.groups, first.transactions)
        if not view.is_alone:
            from hutong.broker.coordinators.other_nodes import RemoteMarkers, RoutedGateway  # late: of several nodes
            from hutong.broker.share.remote_letters import RemoteLetters

            coordinators.share.logs.elsewhere = RemoteLetters(view, broker.topic_creation)
            coordinators.markers.remote = RemoteMarkers(view)
            broker.routed_gateway = RoutedGateway(broker)
        self._sources.broker = broker
        return broker

    def _make_telemetry(self) -> "Telemetry | None":
        """Make the state of clients' metrics; None where they are not sent on."""
        export = self._export
        if export is None:
            return None
        from hutong.broker.telemetry.receiver import UUID_BYTES, Telemetry  # late: few nodes have a receiver

        make_id = partial(self._ports.random_bytes, UUID_BYTES)
        made = Telemetry(self._admin.metrics_configs, export, self._settings.telemetry.max_bytes, make_id)
        export.figures = made.figures
        return made

    async def _end(self) -> None:
        """Let open requests finish, then close everything in the opposite order of start."""
        stopping = OwnerGone("the node is stopping")
        if self._upkeep is not None:
            self._upkeep.stop()
        self._end_own_work(stopping)
        self._queues.end_waits(stopping)
        self._end_coordinators(stopping)
        if self._listeners is not None:
            await self._listeners.drain()
        for threads in (self._authenticators, self._export):
            if threads is not None:
                threads.close()
        # After the connections: their last appends are flushed and answered first.
        await self._close_journals()
        self._queues.close()
        if self._data_dir is not None:
            if not self.has_served:
                self._data_dir.discard()
            self._data_dir.close()

    def _end_own_work(self, stopping: OwnerGone) -> None:
        """End what the node does by itself."""
        if self._delays is not None:
            self._delays.close()
        if self._topic_creation is not None:
            self._topic_creation.close(stopping)

    def _end_coordinators(self, stopping: OwnerGone) -> None:
        """Answer members that wait for a group or a transaction, before their connections drain."""
        for shard in self._shards:
            shard.groups.close()
        if self._share is not None:
            self._share.close(stopping)
        for shard in self._shards:
            shard.transactions.close()

    async def _close_journals(self) -> None:
        await self._journals.close()

    def _make_metadata(self, standings: Mapping[str, GroupStanding], slots: int = 1) -> tuple[Topics, ProducerIds]:
        """Make all that lives by the metadata: topics, producer ids, and settings that are altered while nodes run."""
        wheel = self._environment.wheel
        creations: WaitTable[Topic] = WaitTable("topic_creations", wheel, _CREATIONS_MAX)
        topics = Topics(
            self._sources.journals,
            translate.topic_defaults(self._settings),
            self._ports.random_bytes,
            creations,
            standings,
            slots,
        )
        producer_ids = ProducerIds(WaitTable("producer_ids", wheel, _PRODUCER_ID_WAITS_MAX))
        state = self._environment.state_topic(
            METADATA_TOPIC, *self._internal_logs(METADATA_TOPIC, METADATA_GROUP, topics)
        )
        self._metadata = metadata = NodeMetadata(state)
        self._group_configs = group_configs(self._settings)
        # Each part looks for its own keys.
        for part in (topics, producer_ids, self._group_configs, self._admin):
            metadata.appliers.add(b"", part.replay)
        metadata.on_lead.append(topics.lead)
        # Before the replay: a replayed setting takes effect by `on_change`, which reads these keys.
        configs = self._admin.node_configs
        configs.add(CLEANER_KEYS, translate.cleaner_configs(self._settings))
        configs.on_change.append(lambda: self._work.configs_changed(configs, self._journals))
        configs.add(NODE_KEYS, translate.network_configs(self._settings), of_listeners=OF_LISTENERS)
        configs.on_change.append(lambda: topics.set_defaults(configs.topic_defaults()))
        return topics, producer_ids

    def _start_metadata(self, topics: Topics, producer_ids: ProducerIds) -> None:
        """Record changes in the metadata from now on."""
        state = self._metadata.topic
        topics.start(state)
        producer_ids.start(state)
        self._group_configs.start(state)
        self._admin.start(state)

    async def _load_coordinators(self, topics: Topics, producer_ids: ProducerIds) -> "NodeCoordinators":
        """Make all coordinators, and load them from the logs of a node alone; delete the logs of deleted topics."""
        made = self._make_coordinators(topics, producer_ids)
        (shard,) = made.shards
        (offsets_log,) = self._internal_logs(OFFSETS_TOPIC, OFFSETS_GROUP, topics)
        # A crash between the deletion of a topic in the catalogue and that of its logs leaves such logs.
        for journal, log_id in list(topics.orphaned_logs()):
            journal.delete_log(log_id)
        await shard.groups.load(offsets_log)
        (share_log,) = self._internal_logs(SHARE_TOPIC, SHARE_GROUP, topics)
        state = self._environment.state_topic(SHARE_TOPIC, share_log)
        kept = KeptProgress(state, versions := ProgressVersions(self._ports.random_bytes))
        self._make_share_groups(made, topics, kept, versions)
        await load_share_groups(state, made.share, kept, shard.groups.parts.directory)
        # Transactions last: completing decided ones writes markers to topics and offsets, which must be there.
        (transactions_log,) = self._internal_logs(TRANSACTIONS_TOPIC, TRANSACTIONS_GROUP, topics)
        await shard.transactions.load(transactions_log)
        return made

    def _make_coordinators(self, topics: Topics, producer_ids: ProducerIds, shards: int = 1) -> "NodeCoordinators":
        """Make the coordinators of groups and transactions, which serve once they are loaded."""
        environment, configs, deletion_ms = self._environment, self._group_configs, self._deletion_ms
        coordinations = [Coordination() for _ in range(shards)]
        groups = [GroupLife(environment, topics, configs, deletion_ms, each) for each in coordinations]
        read_actors = ReadActors((), configs)
        markers = TransactionMarkers(topics, [each.parts.offsets.transactional for each in groups])

        def swapped(shard: int, parts: GroupCoordinators) -> None:
            read_actors.coordinators = [kind for each in groups for kind in (each.parts.classic, each.parts.consumer)]
            markers.offsets[shard] = parts.offsets.transactional

        for shard, each in enumerate(groups):
            each.on_swap.append(partial(swapped, shard))
        transactions = [
            TransactionLife(environment, producer_ids, markers, deletion_ms, coordination, shard)
            for shard, coordination in enumerate(coordinations)
        ]
        self._shards = tuple(map(ShardLives, groups, transactions, coordinations))
        self._sources.transactions = lambda: [each.parts for each in transactions]
        return NodeCoordinators(self._shards, markers, read_actors)

    def _make_share_groups(
        self, made: "NodeCoordinators", topics: Topics, progress: ProgressPort, versions: ProgressVersions
    ) -> None:
        made.share = self._share = make_share_groups(
            self._environment,
            progress=progress,
            versions=versions,
            topics=topics,
            configs=self._group_configs,
            disk_reads=self._queues.disk_reads,
            read_actors=made.read_actors,
            offload=self._journals.offload,
        )

    def _internal_logs(self, name: str, group: str, topics: Topics, shards: int = 1) -> list[PartitionLog]:
        """The logs of an internal topic, one in each group. It is in the catalogue by construction."""
        config = effective({"cleanup.policy": "compact"}, {})
        log_ids = [STATE_LOG_ID] * shards
        topic = Topic(name, name.encode().ljust(16, b"_")[:16], group, log_ids, {}, config, is_internal=True)
        # As in every topic's record, they are left out where all are in the first.
        topic.slots = range(shards) if shards > 1 else ()
        for shard in range(shards):
            own = group_of_slot(group, shard)
            log = self._sources.journals[own].log(STATE_LOG_ID)
            topic.partitions.append(Partition(name, shard, log, config, own, topics.standings[own], is_internal=True))
        topics.add_internal(topic)
        return [partition.log for partition in topic.partitions]

    def web_users(self) -> "WebUsers":
        """Return the admission of HTTP's requests by the users of this node."""
        assert self._authenticators is not None, "it listens"
        return self._authenticators.web_users(self.context.loop, self._ports.random_bytes)

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that any client's connection reads."""
        assert self._listeners is not None, "it listens"
        self._listeners.call_at_traffic(callback)

    def _follow_delays(self, broker: Broker) -> None:
        """Let delayed records come where there are any, or may be."""

        def look_at(topic: Topic, exists: bool) -> None:
            if exists and (topic.name == DELAYED_TOPIC or topic.config.delays):
                broker.delays()

        broker.topics.on_change.append(look_at)
        for topic in broker.topics.all():
            look_at(topic, exists=True)

    def _delays_of(self, broker: Broker) -> "RecordTimer":
        if self._delays is None:
            from hutong.broker.delays.record_timer import RecordTimer  # late: most nodes delay nothing

            self._delays = RecordTimer(broker, self._environment.wheel)
            self._delays.start()
        return self._delays

    async def _listen(self, broker: Broker) -> None:
        self._follow_delays(broker)
        loop, settings, wheel, sources = self.context.loop, self._settings, self._environment.wheel, self._sources
        self._authenticators = Authenticators(
            settings, self._admin.scram, self._admin.delegation_tokens, loop, wheel, self._clock, self._ports
        )
        sources.sasl = self._authenticators.figures
        tokens = self._authenticators.access_tokens
        sources.token_keys = None if tokens is None else tokens.figures
        sources.waits |= self._authenticators.waits
        connections_max = self._journals.connections_max()
        self._listeners = KafkaListeners(
            loop,
            settings,
            self._clock,
            wheel,
            self._gate,
            self._authenticators,
            connections_max,
            self._ports.open_socket,
        )
        sources.memory = self._listeners.memory
        sources.certificates = self._listeners.certificates
        sources.reactor = self._listeners.figures
        await self._listeners.open(broker)
        self.listeners = tuple(self._listeners.opened)
        self._admin.node_configs.static = translate.node_config(settings, self.listeners)
        self._admin.node_configs.unset = translate.unset_in(settings)
        sources.requests_total = self._listeners.requests_total
        sources.acceptors = self._listeners.acceptors


def _storage(data_dir: DataFolder, ports: SystemPorts) -> NodeStorage:
    return NodeStorage(str(data_dir.path.absolute()), lambda: ports.volume_bytes(data_dir.path))
