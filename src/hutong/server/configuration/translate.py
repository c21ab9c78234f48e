"""The node's settings, translated into the settings of each package. No other package knows the node's settings."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from hutong.broker.authentication.delegation_tokens import TokenLimits
from hutong.broker.configs.cleaner_configs import CLEANER_KEYS
from hutong.broker.configs.network_configs import NODE_KEYS
from hutong.broker.configs.node_configs import listener_prefix
from hutong.broker.dispatch.request_times import RequestTimes
from hutong.broker.handling.node_facts import BrokerSettings
from hutong.broker.rights.authorization import Authorizer
from hutong.broker.topics.lifetimes import is_state_group
from hutong.broker.topics.topic_config import KEYS
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.consumer.settings import ConsumerGroupSettings, MigrationPolicy
from hutong.groups.settings import GroupSettings
from hutong.groups.share.settings import ShareSettings
from hutong.groups.streams.settings import StreamsGroupSettings, StreamsRules
from hutong.journal.clean.newest_keys import keys_in
from hutong.journal.settings import JournalSettings
from hutong.reactor.limits import ReactorLimits
from hutong.runtime.runtime import Runtime
from hutong.runtime.watch.blocked import BlockedLimits
from hutong.scheduler.machine import Scheduler
from hutong.security.decisions import Decisions
from hutong.security.principals import CLUSTER_NODE
from hutong.server.configuration.settings import Settings, all_settings
from hutong.server.listeners.plans import OpenListener
from hutong.server.listeners.rules import shown_rules
from hutong.server.monitoring.survey.result import SurveyLimits
from hutong.transactions.settings import TransactionSettings

_log = logging.getLogger("hutong.node")
_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_MEBIBYTE: Final = 1024 * 1024
_DISK_READ_MAILBOX_MAX: Final = 10_000  # partitions on disk that one group may have asked for
_DISK_READ_QUOTA_US: Final = 100  # of the loop, for a turn: one read during flushes, or several small ones
_DISK_READ_QUANTUM: Final = 64 * 1024  # a smaller read costs the node about as much
_DISK_READ_CREDIT: Final = 2 * 1024 * 1024  # of a reader that is away only to take its answer and ask for more
_WHAT_ONE_NODE_IS: Final = {
    "default.replication.factor": "1",
    "delete.topic.enable": "true",
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "process.roles": "broker,controller",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
}
"""Settings that tools ask a broker for and that a node fixes by its design."""
_ALWAYS_GIVEN: Final = frozenset(
    ("advertised.listeners", "broker.id", "listener.security.protocol.map", "listeners", "log.dirs", "node.id")
)
_FILLING_FLUSH_BYTES_MAX: Final = 64 * 1024
"""A flush of 64 KiB into new blocks costs 67 us of processor time, into written ones 33; a MiB of zeros about 500."""
_STATE_JOURNAL: Final = JournalSettings(
    # Small segments: a snapshot trims what came before it, and only whole segments give their space back.
    segment_bytes=16 * _MEBIBYTE,
    preallocate_bytes=1 * _MEBIBYTE,
    region_bytes=256 * 1024,
    cached_bytes_max=1 * _MEBIBYTE,
    batch_bytes_max=8 * _MEBIBYTE,
)


def survey_limits(settings: Settings) -> SurveyLimits:
    """Bounds on the topics and groups that the page of metrics shows one by one."""
    section = settings.metrics
    return SurveyLimits(
        topics_max=section.max_topics,
        partitions_max=section.max_partitions,
        groups_max=section.max_groups,
        group_partitions_max=section.max_group_partitions,
    )


def journal_settings(
    settings: Settings, group: str, segments_open_max: int = JournalSettings().segments_open_max
) -> JournalSettings:
    """Bounds of one partition group's journal."""
    log = settings.log
    filling_flush_bytes_max = _FILLING_FLUSH_BYTES_MAX if log.fill_segments else 0
    if is_state_group(group):
        return dataclasses.replace(
            _STATE_JOURNAL, segments_open_max=segments_open_max, filling_flush_bytes_max=filling_flush_bytes_max
        )
    return JournalSettings(
        segment_bytes=log.segment_bytes,
        recycled_bytes_max=log.recycled_bytes,
        filling_flush_bytes_max=filling_flush_bytes_max,
        region_bytes=log.cache_region_bytes,
        cached_bytes_max=_cached_bytes_max(settings),
        segments_open_max=segments_open_max,
        batch_bytes_max=min(log.segment_bytes, JournalSettings().batch_bytes_max),
        producer_expiry_ms=log.producer_id_expiration_ms,
        clean_keys_max=keys_in(log.cleaner_buffer_bytes),
        clean_bytes_per_second_max=log.cleaner_io_bytes_per_second,
    )


def _cached_bytes_max(settings: Settings) -> int:
    """The share of one partition group in the node's cache.

    A cluster deals the partitions of each topic over several groups, and a node has replicas of them all.
    """
    log, cluster = settings.log, settings.cluster
    groups = 1 if cluster.coordinator is None else cluster.slots
    # A smaller window than a region would be empty after each flush.
    return max(log.cache_bytes // groups, log.cache_region_bytes)


def topic_defaults(settings: Settings) -> dict[str, str]:
    """The settings of topics that this node was given and that differ from the built-in ones."""
    log = settings.log
    defaults = {
        "hutong.qos": log.qos,
        "max.message.bytes": str(log.max_message_bytes),
        "message.timestamp.after.max.ms": str(log.timestamp_after_max_ms),
        "message.timestamp.before.max.ms": str(log.timestamp_before_max_ms),
        "retention.bytes": str(log.retention_bytes),
        "retention.ms": str(log.retention_ms),
        "segment.bytes": str(log.segment_bytes),
        "segment.ms": str(log.segment_ms),
    }
    return {name: value for name, value in defaults.items() if value != KEYS[name].default}


def broker_settings(settings: Settings) -> BrokerSettings:
    return BrokerSettings(
        auto_create_topics=settings.topic.auto_create,
        default_partitions=settings.topic.default_partitions,
        fetch_max_bytes=settings.fetch.max_bytes,
        acknowledgement_timeout_ms=settings.log.acknowledgement_timeout_ms,
    )


def authorizer(settings: Settings, decisions: Decisions, clock: Clock) -> Authorizer:
    """The authorizer of all requests. Raises UsageError where a super user is no principal."""
    section = settings.security
    super_users = [user.strip() for text in section.super_users for user in text.split(";") if user.strip()]
    for user in super_users:
        kind, colon, name = user.partition(":")
        if not (kind and colon and name):
            raise UsageError(
                f"security.super_users has {user!r}, which is no principal; write User: before the name.",
                ExitCode.CONFIG,
            )
    if section.authorize and not super_users and not section.allow_everyone_if_no_acl_found and not len(decisions):
        _log.warning("Nobody may do anything: security.authorize is on, there is no ACL, and no security.super_users.")
    # No client has a principal of this kind: requests of the node itself, and of other nodes of its cluster.
    super_users.append(str(CLUSTER_NODE))
    decisions.govern(super_users, allows_without_acl=section.allow_everyone_if_no_acl_found)
    return Authorizer(decisions, clock, is_on=section.authorize)


def token_limits(settings: Settings) -> TokenLimits:
    """The rules of delegation tokens."""
    section = settings.delegation_token
    return TokenLimits(section.secret_key.encode(), section.max_lifetime_ms, section.expiry_time_ms)


def quota_window_ms(settings: Settings) -> int:
    """The window over which a client's use is set against its quota: all samples but the one that is being taken."""
    return (settings.quota.window_num - 1) * settings.quota.window_size_seconds * _SECOND_MS


def disk_read_scheduler(settings: Settings) -> Scheduler:
    """The scheduler of disk reads of one partition group, which gets half of all bytes in flight.

    Shares are of bytes: those are what readers see, and the same whether the loop or a worker reads.
    """
    return Scheduler(
        quota_us=_DISK_READ_QUOTA_US,
        mailbox_max=_DISK_READ_MAILBOX_MAX,
        cost_max=settings.fetch.cold_bytes_in_flight // 2,
        in_flight_max=settings.node.worker_threads,
        charges_cost=True,
        quantum=_DISK_READ_QUANTUM,
        credit=_DISK_READ_CREDIT,
    )


_REQUESTS_PER_PASS_MAX: Final = 64  # of one connection; producers send about as many at once
_ANSWER_BYTES_PER_PASS_MAX: Final = 8 * 1024  # which shows a request's cost better than its own size


def reactor_limits(settings: Settings) -> ReactorLimits:
    """Bounds of connections; how many of Kafka's clients there may be is `network_configs`."""
    network = settings.network
    return ReactorLimits(
        connections_max=network.max_connections,
        connections_per_ip_max=max(1, network.max_connections_per_ip),
        listen_backlog=network.listen_backlog,
        frame_bytes_max=network.max_frame_bytes,
        requests_in_flight_max=network.max_requests_in_flight,
        requests_per_pass_max=_REQUESTS_PER_PASS_MAX,
        answer_bytes_per_pass_max=_ANSWER_BYTES_PER_PASS_MAX,
        unsent_bytes_max=network.max_unsent_bytes,
        memory_bytes_max=network.memory_bytes_max,
        queued_requests_max=network.queued_max_requests,
        queued_bytes_max=network.queued_max_request_bytes if network.queued_max_request_bytes > 0 else None,
        idle_ms_max=network.connections_max_idle_ms,
        drain_ms_max=settings.node.shutdown_timeout_ms,
        send_buffer_bytes=network.send_buffer_bytes if network.send_buffer_bytes > 0 else None,
        receive_buffer_bytes=network.receive_buffer_bytes if network.receive_buffer_bytes > 0 else None,
    )


def request_times(settings: Settings) -> RequestTimes:
    slow_ms = settings.network.slow_request_ms
    return RequestTimes(slow_ms * 1000) if slow_ms else RequestTimes()


def network_configs(settings: Settings) -> dict[str, str]:
    """The bounds of connections that this node was given, under Kafka's names. Raises UsageError."""
    network = settings.network
    given = {
        "max.connections": str(network.max_connections),
        "max.connections.per.ip": str(network.max_connections_per_ip),
        "max.connections.per.ip.overrides": ",".join(network.max_connections_per_ip_overrides),
        "max.connection.creation.rate": str(network.max_connection_creation_rate),
    }
    known = {key.name: key for key in NODE_KEYS}
    given = {name: value for name, value in given.items() if value != known[name].default}
    for base, texts in (
        ("max.connections", network.listener_max_connections),
        ("max.connection.creation.rate", network.listener_max_connection_creation_rate),
    ):
        for text in texts:
            listener, _, value = text.rpartition(":")
            given[listener_prefix(listener) + base] = value
    for name, value in given.items():
        if not next(key for base, key in known.items() if name.endswith(base)).accepts(value):
            raise UsageError(f"{name} is {value!r}, which it cannot be.", ExitCode.CONFIG)
    return given


def cleaner_configs(settings: Settings) -> dict[str, str]:
    """Settings of cleaning that this node started with and clients may alter, under Kafka's names."""
    log = settings.log
    given = {
        "log.cleaner.backoff.ms": str(log.cleaner_backoff_ms),
        "log.cleaner.dedupe.buffer.size": str(log.cleaner_buffer_bytes),
        "log.cleaner.io.max.bytes.per.second": str(log.cleaner_io_bytes_per_second),
        "producer.id.expiration.ms": str(log.producer_id_expiration_ms),
    }
    return {key.name: given[key.name] for key in CLEANER_KEYS if given[key.name] != key.default}


def group_settings(settings: Settings) -> GroupSettings:
    return GroupSettings(
        session_timeout_ms_min=settings.group.min_session_timeout_ms,
        session_timeout_ms_max=settings.group.max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group.initial_rebalance_delay_ms,
        members_max=settings.group.max_members,
        groups_max=settings.group.max_groups,
        offset_metadata_bytes_max=settings.offsets.max_metadata_bytes,
        offsets_retention_ms=settings.offsets.retention_minutes * _MINUTE_MS,
    )


def consumer_group_settings(settings: Settings) -> ConsumerGroupSettings:
    group = settings.group
    return ConsumerGroupSettings(
        times=GroupTimes(
            session_timeout_ms=group.consumer_session_timeout_ms,
            heartbeat_interval_ms=group.consumer_heartbeat_interval_ms,
            assignment_interval_ms=group.consumer_assignment_interval_ms,
        ),
        session_timeout_ms_min=group.consumer_min_session_timeout_ms,
        session_timeout_ms_max=group.consumer_max_session_timeout_ms,
        heartbeat_interval_ms_min=group.consumer_min_heartbeat_interval_ms,
        heartbeat_interval_ms_max=group.consumer_max_heartbeat_interval_ms,
        assignment_interval_ms_min=group.consumer_min_assignment_interval_ms,
        assignment_interval_ms_max=group.consumer_max_assignment_interval_ms,
        members_max=group.consumer_max_size,
        migration_policy=MigrationPolicy(group.consumer_migration_policy),
    )


def streams_group_settings(settings: Settings) -> StreamsGroupSettings:
    group = settings.group
    return StreamsGroupSettings(
        rules=StreamsRules(
            session_timeout_ms=group.streams_session_timeout_ms,
            heartbeat_interval_ms=group.streams_heartbeat_interval_ms,
            assignment_interval_ms=group.streams_assignment_interval_ms,
            standby_replicas=group.streams_num_standby_replicas,
            initial_rebalance_delay_ms=group.streams_initial_rebalance_delay_ms,
        ),
        session_timeout_ms_bounds=(group.streams_min_session_timeout_ms, group.streams_max_session_timeout_ms),
        heartbeat_interval_ms_bounds=(group.streams_min_heartbeat_interval_ms, group.streams_max_heartbeat_interval_ms),
        assignment_interval_ms_bounds=(
            group.streams_min_assignment_interval_ms,
            group.streams_max_assignment_interval_ms,
        ),
        standby_replicas_max=group.streams_max_standby_replicas,
        members_max=group.streams_max_size,
    )


def share_settings(settings: Settings) -> ShareSettings:
    share = settings.share
    return ShareSettings(
        delivery_count_limit=share.delivery_count_limit,
        record_lock_duration_ms=share.record_lock_duration_ms,
        partition_max_record_locks=share.partition_max_record_locks,
        session_timeout_ms=share.session_timeout_ms,
        heartbeat_interval_ms=share.heartbeat_interval_ms,
        delivery_count_limit_bounds=(share.min_delivery_count_limit, share.max_delivery_count_limit),
        record_lock_duration_ms_bounds=(share.min_record_lock_duration_ms, share.max_record_lock_duration_ms),
        partition_max_record_locks_bounds=(share.min_partition_max_record_locks, share.max_partition_max_record_locks),
        session_timeout_ms_bounds=(share.min_session_timeout_ms, share.max_session_timeout_ms),
        heartbeat_interval_ms_bounds=(share.min_heartbeat_interval_ms, share.max_heartbeat_interval_ms),
        max_size=share.max_size,
        max_share_sessions=share.max_share_sessions,
    )


def transaction_settings(settings: Settings) -> TransactionSettings:
    section = settings.transaction
    return TransactionSettings(
        timeout_ms_max=section.max_timeout_ms,
        id_expiration_ms=section.id_expiration_ms,
        id_expiration_check_interval_ms=section.id_expiration_check_interval_ms,
        ids_max=section.max_ids,
        partitions_max=section.max_partitions,
    )


def node_config(settings: Settings, listeners: Sequence[OpenListener]) -> Mapping[str, str]:
    """The node's settings under Kafka's names, as clients that describe a broker expect them."""
    shown: dict[str, str] = {}
    for setting in all_settings():
        value = getattr(getattr(settings, setting.section), setting.key)
        if setting.facts.kafka_name and value is not None and not setting.facts.secret:
            shown[setting.facts.kafka_name] = _text(value)
    return (
        shown
        | shown_rules(settings.tls, settings.sasl)
        | _WHAT_ONE_NODE_IS
        | {
            "broker.id": str(settings.node.id),
            "node.id": str(settings.node.id),
            "log.dirs": str(settings.node.data_dir),
            "super.users": ";".join(settings.security.super_users),
            "listeners": ",".join(f"{listener.name}://{listener.bound}" for listener in listeners),
            "advertised.listeners": ",".join(f"{listener.name}://{listener.advertised}" for listener in listeners),
            "listener.security.protocol.map": ",".join(f"{each.name}:{each.protocol}" for each in listeners),
        }
    )


def _text(value: object) -> str:
    """As Kafka writes it."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def unset_in(settings: Settings) -> frozenset[str]:
    """Kafka's names of the settings that are as built in."""
    unset = {
        setting.facts.kafka_name
        for setting in all_settings()
        if setting.facts.kafka_name and getattr(getattr(settings, setting.section), setting.key) == setting.default
    }
    return (frozenset(_WHAT_ONE_NODE_IS) | unset) - _ALWAYS_GIVEN


def runtime_of(settings: Settings, clock: Clock) -> Runtime:
    """A runtime on the running loop, as the settings have it."""
    section = settings.runtime
    limits = BlockedLimits(
        loop_ms=section.blocked_loop_ms, worker_ms=section.blocked_worker_ms, stack_ms=section.blocked_stack_ms
    )
    return Runtime(clock, event_loops=section.event_loops, worker_threads=section.worker_threads, blocked_limits=limits)
