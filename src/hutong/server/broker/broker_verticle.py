"""The broker as a verticle: Kafka clients on one side, the journals in the data folder on the other.

Strategy: what a room needs arrives by its constructor, from here. Start: lock the data folder, recover the journals,
replay the internal topics into the catalogue and the groups, then accept clients: nobody connects to a node that does
not know its own state. End: accept no more, let open requests finish, close the journals with a clean mark; one close
hook does that, also where the start failed half way.

Everything happens on the loop of the verticle's context. Decides nothing: each decision is a room's.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Final

from hutong.broker.admin_state import AdminState
from hutong.broker.broker import Broker
from hutong.broker.configs.cleaner_configs import CLEANER_KEYS, altered_journal_settings, cleaner_backoff_ms
from hutong.broker.configs.network_configs import NODE_KEYS, OF_LISTENERS
from hutong.broker.coordinators.producer_ids import ProducerIds
from hutong.broker.coordinators.transaction_markers import TransactionMarkers
from hutong.broker.dispatch.long_requests import LONG_BYTES_MAX, Finished, LongRequests
from hutong.broker.dispatch.request_tracing import RequestTracer
from hutong.broker.fetch.disk_reads import ColdReads
from hutong.broker.fetch.session_table import FetchSessions
from hutong.broker.handling.node_facts import NodeIdentity, NodeStorage
from hutong.broker.kafka import HANDLERS
from hutong.broker.produce.congestion import Congestion
from hutong.broker.produce.examinations import WORKERS as EXAMINERS
from hutong.broker.produce.examinations import Examinations, Outcome
from hutong.broker.quotas.meter import Meter
from hutong.broker.state.log_storage import LogStorage
from hutong.broker.state.state_topic import StateTopic
from hutong.broker.topics.catalogue import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC, Topics
from hutong.broker.topics.lifetimes import (
    DATA_GROUPS,
    METADATA_GROUP,
    OFFSETS_GROUP,
    SHARE_GROUP,
    STATE_GROUPS,
    TRANSACTIONS_GROUP,
)
from hutong.broker.topics.partition import Partition, Topic
from hutong.broker.topics.retention import Compaction, Retention
from hutong.broker.topics.segment_roller import SegmentRoller
from hutong.broker.topics.topic_config import effective
from hutong.foundation.clock import Clock
from hutong.foundation.deletion_clock import DeletionClock
from hutong.foundation.errors import CorruptData, DiskFull, OwnerGone, StorageError, StorageShortage
from hutong.foundation.timers import Timer
from hutong.foundation.waiting.table import WaitTable
from hutong.journal.files.disk import Disk
from hutong.journal.journal import Journal
from hutong.journal.offline import OfflineJournal
from hutong.journal.settings import JournalSettings
from hutong.reactor.door import Door
from hutong.runtime.offload import ThreadOffload
from hutong.runtime.precedence import Precedence
from hutong.runtime.verticles import Verticle
from hutong.scheduler.driver import FairExecutor
from hutong.scheduler.machine import Scheduler
from hutong.server.broker import open_files
from hutong.server.broker.data_dir import DataDir
from hutong.server.broker.group_coordinators import GroupCoordinators, group_configs, open_groups
from hutong.server.broker.share_coordinators import ShareRooms, open_share_rooms
from hutong.server.broker.users import put_users
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Address, Settings
from hutong.server.listeners.authenticators import Authenticators
from hutong.server.listeners.kafka_listeners import KafkaListeners
from hutong.server.listeners.plans import OpenListener
from hutong.server.monitoring.sources import Sources
from hutong.transactions.driver import TransactionCoordinator

STATE_LOG_ID: Final = 0  # the one log of each state group; topics' logs are numbered from 1
_TELL_INTERVAL_MS: Final = 1_000
_NOTE_TIME_INTERVAL_MS: Final = 60_000
_CREATIONS_MAX: Final = 10_000
_HELD_MAX: Final = 1_000_000  # one for each connection: the reactor bounds those
_FETCHES_MAX: Final = 100_000
_COLD_READS_MAX: Final = 100_000
_PRODUCER_ID_WAITS_MAX: Final = 10_000
_log = logging.getLogger("hutong.node")


class BrokerVerticle(Verticle):
    """Topics, groups and journals of one node. `listeners` are those where clients connect, once it has
    started, `listens_at` is the first.

    Its journals are on `disk` and stand in `sources.journals`, as do its other figures in `sources`. Its start raises
    UsageError where the folder or the address cannot be used, and StorageError where the disk cannot.
    """

    listens_at: Address
    listeners: tuple[OpenListener, ...]

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        clock: Clock,
        sources: Sources,
        door: Door | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        """`users` are given these passwords, by name, before anybody can connect."""
        self._settings = settings
        self._disk = disk
        self._clock = clock
        self._sources = sources
        self._door = door
        self._users = dict(users or {})
        self._journals = sources.journals
        self._offloads: list[ThreadOffload] = []
        self._data_dir: DataDir | None = None
        self._admin = AdminState(settings.node.id, translate.topic_defaults(settings), os.urandom)
        self.tracer: RequestTracer | None = None  # set before the start, where requests are traced
        self._authenticators: Authenticators | None = None
        self._listeners: KafkaListeners | None = None
        self._groups: GroupCoordinators | None = None
        self._share: ShareRooms | None = None
        self._transactions: TransactionCoordinator | None = None
        self._retention: Retention | None = None
        self._compaction: Compaction | None = None
        self._backoff_ms = 0  # between looks for something to clean
        self._roller: SegmentRoller | None = None
        self._time_noted: Timer | None = None

    async def start(self) -> None:
        """Recover, replay, accept clients."""
        self._build()
        self.context.add_close_hook(self._end)
        settings = self._settings
        self._data_dir = DataDir(settings.node.data_dir, os.urandom)
        self._begin_clock(self._data_dir)
        await self._open_journals(self._data_dir)
        topics, producer_ids = await self._replay_catalogue()
        await put_users(self._admin.scram, self._users, self._offload)
        self._groups = await self._replay_groups(topics)
        self._share = await self._open_share_rooms(topics, self._groups)
        markers = TransactionMarkers(topics, self._groups.offsets.transactional)
        self._transactions = await self._replay_transactions(topics, producer_ids, markers)
        self._begin_upkeep(topics)
        held_producers: WaitTable[None] = WaitTable("held_producers", self._wheel, _HELD_MAX)
        muted: WaitTable[None] = WaitTable("throttled", self._wheel, _HELD_MAX)
        self._sources.waits |= {"held_producers": held_producers, "throttled": muted}
        broker = Broker(
            api_keys=tuple(HANDLERS),
            identity=NodeIdentity(settings.node.id, self._data_dir.cluster_id),
            settings=translate.broker_settings(settings),
            clock=self._clock,
            topics=topics,
            producer_ids=producer_ids,
            groups=self._groups.classic,
            consumer_groups=self._groups.consumer,
            group_configs=self._group_configs,
            share_groups=self._share.groups,
            share_sessions=self._share.sessions,
            share_fetches=self._share.fetches,
            transactions=self._transactions,
            transaction_markers=markers,
            fetches=self._fetches,
            fetch_sessions=self._fetch_sessions,
            congestion=Congestion(self._journals, held_producers),
            examinations=self._examinations,
            long_requests=self._long_requests,
            cold_reads=self._cold_reads,
            storage=_storage(self._data_dir),
            admin=self._admin,
            request_times=translate.request_times(settings),
            meter=Meter(self._admin.quotas, self._clock, muted, translate.quota_window_ms(settings)),
            authorizer=translate.authorizer(settings, self._admin.acls.decisions, self._clock),
            tracer=self.tracer,
        )
        self._sources.broker = broker
        self.listens_at = await self._listen(broker)

    def _build(self) -> None:
        """What needs the context's loop and its timers, but nothing from the disk."""
        loop, settings = self.context.loop, self._settings
        self._files_max, journals = open_files.limit(), len(STATE_GROUPS) + len(DATA_GROUPS)
        wanted = JournalSettings().segments_open_max
        self._segments_open_max = open_files.segments_open_max(self._files_max, journals, wanted)
        self._wheel = self.context.home.wheel
        workers = settings.node.worker_threads
        self._offload = ThreadOffload(loop, workers, "hutong-disk")
        # Cold reads have threads of their own: a flush, for which producers wait, must not queue behind them. And each
        # partition group has its own for both, begun when they are needed: a disk that stalls under one holds up no
        # other.
        groups = (*STATE_GROUPS, *DATA_GROUPS)
        self._device = Precedence(self._clock, self._wheel, workers)
        self._read_offloads = {group: ThreadOffload(loop, workers, f"hutong-reader-{group}") for group in groups}
        self._flush_offloads = {group: ThreadOffload(loop, 1, f"hutong-flush-{group}") for group in groups}
        # What batches unpack to is bounded by these threads: no disk's work may use them, nor they the disk's.
        examiners = ThreadOffload(loop, EXAMINERS, "hutong-examiner")
        self._offloads = [self._offload, *self._flush_offloads.values(), *self._read_offloads.values(), examiners]
        self._fetches: WaitTable[None] = WaitTable("fetches", self._wheel, _FETCHES_MAX)
        cold_reads: WaitTable[list[memoryview]] = WaitTable("cold_reads", self._wheel, _COLD_READS_MAX)
        limits = translate.scheduler_limits(settings)

        def queue_of_journal() -> FairExecutor:
            return FairExecutor(Scheduler(**limits), cold_reads, self._clock, loop.call_soon)

        self._cold_reads = ColdReads(queue_of_journal, self._clock, lambda: self._device.is_contended)
        examined: WaitTable[list[Outcome | None]] = WaitTable("examined_produces", self._wheel, _HELD_MAX)
        executor = FairExecutor(Scheduler(), examined, self._clock, loop.call_soon)
        self._examinations = Examinations(executor, examiners, self._clock, settings.log.unpacked_batch_bytes_max)
        codec = ThreadOffload(loop, 1, "hutong-codec")
        self._offloads.append(codec)
        long_requests: WaitTable[Finished] = WaitTable("long_requests", self._wheel, _HELD_MAX)
        executor = FairExecutor(Scheduler(cost_max=LONG_BYTES_MAX), long_requests, self._clock, loop.call_soon)
        self._long_requests = LongRequests(executor, codec, self._clock)
        self._sources.waits["long_requests"] = long_requests
        self._sources.waits |= {"fetches": self._fetches, "cold_reads": cold_reads, "examined_produces": examined}
        self._sources.cold_reads = self._cold_reads
        self._fetch_sessions = FetchSessions(settings.fetch.session_slots, os.urandom)
        self._sources.fetch_sessions = self._fetch_sessions

    def _begin_clock(self, data_dir: DataDir) -> None:
        """Know the time by which things are old, also over restarts."""
        hold_ms = self._settings.log.clock_jump_hold_ms
        self._deletion_clock = DeletionClock(self._clock, hold_ms=hold_ms, known_ms=data_dir.last_used_ms, tell=_warn)
        self._sources.deletion_clock = self._deletion_clock
        self._note_time(data_dir)

    def _note_time(self, data_dir: DataDir) -> None:
        """Every so often, so that a jump is noticed between two looks for what is old, and at the next start."""
        data_dir.note_use(self._deletion_clock.now_ms())
        due_ms = self._clock.monotonic_ms() + _NOTE_TIME_INTERVAL_MS
        self._time_noted = self._wheel.add(due_ms, lambda: self._note_time(data_dir))

    async def _end(self) -> None:
        """Let open requests finish, then close everything in the opposite order of start."""
        self._end_upkeep()
        self._fetches.close(OwnerGone("the node is stopping"))  # those who wait for data are answered without
        self._cold_reads.close(OwnerGone("the node is stopping"))
        self._examinations.close(OwnerGone("the node is stopping"))
        self._long_requests.close(OwnerGone("the node is stopping"))
        self._close_coordinators()
        if self._listeners is not None:
            await self._listeners.drain()
        if self._authenticators is not None:
            self._authenticators.close()
        for group, journal in self._journals.items():
            try:
                await journal.close()
            except StorageError as error:
                _log.error("partition group %s was not closed cleanly: %s", group, error)
        for offload in self._offloads:
            offload.close()
        if self._data_dir is not None:
            self._data_dir.close()

    def _end_upkeep(self) -> None:
        for upkeep in (self._retention, self._compaction, self._roller):
            if upkeep is not None:
                upkeep.stop()
        if self._time_noted is not None and self._data_dir is not None:
            self._time_noted.cancel()
            self._data_dir.note_use(self._deletion_clock.now_ms())

    def _close_coordinators(self) -> None:
        """Whoever waits for groups and transactions is answered."""
        if self._groups is not None:
            self._groups.close()
        if self._share is not None:
            self._share.close(OwnerGone("the node is stopping"))
        if self._transactions is not None:
            self._transactions.close()

    def _begin_upkeep(self, topics: Topics) -> None:
        log = self._settings.log
        self._retention = Retention(topics, self._journals, self._wheel, self._clock, log.retention_check_interval_ms)
        self._retention.start()
        if log.cleaner_enable:
            configs = self._admin.node_configs
            self._backoff_ms = cleaner_backoff_ms(configs)
            self._compaction = Compaction(
                topics, self._journals, self._wheel, self._clock, lambda: cleaner_backoff_ms(configs), _warn
            )
            self._compaction.start()
        self._roller = SegmentRoller(topics, self._journals, self._wheel, self._clock)
        self._roller.start()

    def _configs_changed(self) -> None:
        """Follow altered settings of journals and of cleaning from now on."""
        configs = self._admin.node_configs
        for group in DATA_GROUPS:
            started_with = translate.journal_settings(self._settings, group, self._segments_open_max)
            self._journals[group].alter_settings(altered_journal_settings(started_with, configs))
        backoff_ms = cleaner_backoff_ms(self._admin.node_configs)
        if self._compaction is not None and backoff_ms != self._backoff_ms:
            self._backoff_ms = backoff_ms
            self._compaction.interval_changed()

    async def _open_journals(self, data_dir: DataDir) -> None:
        """Recover every partition group, side by side."""
        groups = (*STATE_GROUPS, *DATA_GROUPS)
        opened = await asyncio.gather(
            *(self._open_journal(data_dir, group) for group in groups), return_exceptions=True
        )
        for group, journal in zip(groups, opened, strict=True):
            if isinstance(journal, Journal):
                self._journals[group] = journal
        for group, journal in zip(groups, opened, strict=True):
            if isinstance(journal, CorruptData):
                error = CorruptData(f"{journal}; `hutong doctor {data_dir.path}` says what can be done")
                # Without topics, offsets or transactions a node would give wrong answers; without records, none.
                if group in STATE_GROUPS:
                    raise error from journal
                self._journals[group] = self._without(group, error, data_dir)
            elif isinstance(journal, BaseException):
                raise journal

    def _without(self, group: str, error: CorruptData, data_dir: DataDir) -> OfflineJournal:
        """What stands in the place of a partition group that was refused; all others are served."""
        _log.critical(
            "partition group %s is offline, all its partitions answer KAFKA_STORAGE_ERROR, and all others are served: "
            "%s.",
            group,
            error,
        )
        settings = translate.journal_settings(self._settings, group, self._segments_open_max)
        path, soon = data_dir.group_path(group), self.context.loop.call_soon
        return OfflineJournal(error, path, self._clock, self._wheel, settings, soon)

    async def _open_journal(self, data_dir: DataDir, group: str) -> Journal:
        journal = await Journal.open(
            data_dir.group_path(group),
            disk=self._disk,
            offload=self._offload,
            read_offload=self._device.behind(self._read_offloads[group]),
            flush_offload=self._device.first(self._flush_offloads[group]),
            clock=self._clock,
            timers=self._wheel,
            settings=translate.journal_settings(self._settings, group, self._segments_open_max),
            deletion_ms=self._deletion_clock.now_ms,
        )
        for sentence in journal.recovery.sentences():
            _log.warning("%s", sentence)
        journal.on_failure(
            lambda error: _log.critical(
                "partition group %s has failed for good: %s; it takes no more records until the node is started again "
                "on a sound disk, what was acknowledged can still be read.",
                group,
                error,
            )
        )
        journal.on_shortage(_shortage_teller(group))
        journal.reader.failures.on_failure = _read_failure_teller(group, self._clock)
        return journal

    async def _replay_catalogue(self) -> tuple[Topics, ProducerIds]:
        """Topics and producer ids as the catalogue's log has them."""
        creations: WaitTable[Topic] = WaitTable("topic_creations", self._wheel, _CREATIONS_MAX)
        topics = Topics(self._journals, translate.topic_defaults(self._settings), os.urandom, creations)
        producer_ids = ProducerIds(WaitTable("producer_ids", self._wheel, _PRODUCER_ID_WAITS_MAX))
        state = self._state_topic(METADATA_TOPIC, METADATA_GROUP, topics)

        self._group_configs = group_configs(self._settings)

        def apply(key: bytes, value: bytes | None) -> None:
            topics.replay(key, value)
            producer_ids.replay(key, value)
            self._group_configs.replay(key, value)
            self._admin.replay(key, value)

        configs = self._admin.node_configs
        configs.add(CLEANER_KEYS, translate.cleaner_configs(self._settings))
        configs.on_change.append(self._configs_changed)
        configs.add(NODE_KEYS, translate.network_configs(self._settings), of_listeners=OF_LISTENERS)
        configs.on_change.append(lambda: topics.set_defaults(configs.topic_defaults()))
        await state.replay(apply)
        state.on_late = apply
        topics.start(state)
        producer_ids.start(state)
        self._group_configs.start(state)
        self._admin.start(state)
        return topics, producer_ids

    async def _replay_groups(self, topics: Topics) -> GroupCoordinators:
        """Groups of all kinds and their offsets as their log has them; logs of deleted topics go."""
        state = self._state_topic(OFFSETS_TOPIC, OFFSETS_GROUP, topics)
        for journal, log_id in list(topics.orphaned_logs()):
            journal.delete_log(log_id)
        return await open_groups(
            state, topics, self._clock, self._wheel, self._settings, self._group_configs, self._deletion_clock.now_ms
        )

    async def _open_share_rooms(self, topics: Topics, groups: GroupCoordinators) -> ShareRooms:
        return await open_share_rooms(
            state=self._state_topic(SHARE_TOPIC, SHARE_GROUP, topics),
            topics=topics,
            directory=groups.directory,
            configs=self._group_configs,
            clock=self._clock,
            wheel=self._wheel,
            cold_reads=self._cold_reads,
            offload=self._offload,
            call_soon=self.context.loop.call_soon,
            sources=self._sources,
            settings=self._settings,
        )

    async def _replay_transactions(
        self, topics: Topics, producer_ids: ProducerIds, markers: TransactionMarkers
    ) -> TransactionCoordinator:
        """Transactions as their log has them; what was decided before is carried out now."""
        state = self._state_topic(TRANSACTIONS_TOPIC, TRANSACTIONS_GROUP, topics)
        transactions = TransactionCoordinator(
            clock=self._clock,
            timers=self._wheel,
            state=state,
            producer_ids=producer_ids,
            markers=markers,
            settings=translate.transaction_settings(self._settings),
            deletion_ms=self._deletion_clock.now_ms,
        )
        await state.replay(transactions.replay)
        state.on_late = transactions.apply_late
        self._sources.transactions = transactions
        transactions.start()
        return transactions

    def _state_topic(self, name: str, group: str, topics: Topics) -> StateTopic:
        """An internal topic: in the catalogue by construction, with one log in its own partition group."""
        log = self._journals[group].log(STATE_LOG_ID)
        config = effective({"cleanup.policy": "compact"}, {})
        topic = Topic(name, name.encode().ljust(16, b"_")[:16], group, [STATE_LOG_ID], {}, config, is_internal=True)
        topic.partitions.append(Partition(name, 0, log, config, is_internal=True))
        topics.add_internal(topic)
        return StateTopic(name, LogStorage(log), self._clock)

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that any client's connection reads."""
        assert self._listeners is not None, "it listens"
        self._listeners.call_at_traffic(callback)

    async def _listen(self, broker: Broker) -> Address:
        loop, settings, wheel = self.context.loop, self._settings, self._wheel
        self._authenticators = Authenticators(settings, self._admin.scram, loop, wheel, self._clock)
        self._sources.sasl = self._authenticators.figures
        self._sources.waits |= self._authenticators.waits
        room = open_files.connections_max(
            self._files_max, open_files.open_now(), len(STATE_GROUPS) + len(DATA_GROUPS), self._segments_open_max
        )
        self._listeners = KafkaListeners(loop, settings, self._clock, wheel, self._door, self._authenticators, room)
        self._sources.memory = self._listeners.memory
        self._sources.certificates = self._listeners.certificates
        self._sources.reactor = self._listeners.figures
        await self._listeners.open(broker)
        self.listeners = tuple(self._listeners.opened)
        self._admin.node_configs.static = translate.node_config(self._settings, self.listeners)
        self._admin.node_configs.unset = translate.unset_in(self._settings)
        self._sources.requests_total = self._listeners.requests_total
        self._sources.acceptors = self._listeners.acceptors
        return self.listeners[0].bound


def _shortage_teller(group: str) -> Callable[[StorageShortage | None], None]:
    """Tells the log when the group runs short of something, and when that is over."""
    what = ""

    def tell(error: StorageShortage | None) -> None:
        nonlocal what
        if error is None:
            _log.warning("partition group %s has %s again and takes records.", group, what)
            return
        what = "space" if isinstance(error, DiskFull) else "open files and memory"
        _log.error("partition group %s: %s; it refuses records until there is %s, and reads go on.", group, error, what)

    return tell


def _read_failure_teller(group: str, clock: Clock) -> Callable[[StorageError], None]:
    """Tells the log of reads that fail, in one line at most in each interval: clients ask again at once."""
    told_at_ms, untold = -_TELL_INTERVAL_MS, 0

    def tell(error: StorageError) -> None:
        nonlocal told_at_ms, untold
        now_ms = clock.monotonic_ms()
        if now_ms - told_at_ms < _TELL_INTERVAL_MS:
            untold += 1
            return
        _log.error(
            "partition group %s: %s; its readers are answered KAFKA_STORAGE_ERROR there, and all else goes on "
            "(%d more like it before).",
            group,
            error,
            untold,
        )
        told_at_ms, untold = now_ms, 0

    return tell


def _storage(data_dir: DataDir) -> NodeStorage:
    def volume_bytes() -> tuple[int, int]:
        volume = shutil.disk_usage(data_dir.path)
        return volume.total, volume.free

    return NodeStorage(str(data_dir.path.absolute()), volume_bytes)


def _warn(sentence: str) -> None:
    _log.warning("%s", sentence)
