"""Share groups of one node: their coordinator, their partitions, the sessions of members and fetches that wait.

Strategy: partitions are served where their data are led. The leader of the share groups' log keeps their progress. On
a node alone that is one log, with the groups themselves, replayed once. Among several nodes the coordinator comes and
goes with that of the other groups (`group_coordinators`), and the progress with its own log
(`server/cluster/share_progress`).

Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hutong.broker.share.share_fetches import ShareFetches
from hutong.broker.share.share_logs import ShareLogs
from hutong.broker.share.share_sessions import ShareSession, ShareSessions
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.share.configs import ShareRules
from hutong.groups.share.delivery.driver import Deliveries
from hutong.groups.share.delivery.progress import KeptProgress, ProgressVersions
from hutong.groups.share.driver import ShareCoordinator
from hutong.groups.share.members.messages import TopicShape
from hutong.groups.share.records import PartitionKey, decode_key
from hutong.server.configuration import translate
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.fetch.disk_reads import DiskReads
    from hutong.broker.fetch.read_actors import ReadActors
    from hutong.broker.state.state_topic import StateTopic
    from hutong.broker.topics.catalogue import Topics
    from hutong.broker.topics.partition import Topic
    from hutong.foundation.errors import HutongError
    from hutong.foundation.machine_host import StatePort
    from hutong.groups.configs import GroupConfigs
    from hutong.groups.directory import GroupDirectory
    from hutong.groups.share.delivery.progress import ProgressPort
    from hutong.runtime.threads.offload import Offload
    from hutong.server.broker.environment import BrokerEnvironment

_SESSIONS_MAX: Final = 1_000_000  # the setting bounds them: this is the table's own
_WAITS_MAX: Final = 100_000
_LED_ELSEWHERE: Final = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another node leads this partition.")
_TOPIC_GONE: Final = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted.")


@dataclass(slots=True)
class ShareGroupParts:
    """Everything of share groups that the broker uses. `groups` and `kept` are those of this moment, by shard."""

    logs: ShareLogs
    deliveries: Deliveries
    sessions: ShareSessions
    fetches: ShareFetches
    make_coordinator: Callable[[StatePort, GroupDirectory], ShareCoordinator]
    groups: list[ShareCoordinator] = field(init=False)
    kept: list[KeptProgress] = field(init=False)

    def topic_changed(self, topic: Topic, exists: bool) -> None:
        """A topic has come or gone, or has more partitions."""
        if not exists:
            self.deliveries.drop(lambda key: key.topic_id == topic.topic_id, _TOPIC_GONE)
            for kept in self.kept:
                kept.forget_topic(topic.topic_id)
        for groups in self.groups:
            groups.topics_changed(topic.name)

    def stepped_down(self, group: str) -> None:
        """Another node leads a partition group from now on: it reads the progress there when somebody asks."""

        def is_in_group(key: PartitionKey) -> bool:
            partition = self.logs.find(key)
            return partition is not None and partition.group == group

        self.deliveries.drop(is_in_group, _LED_ELSEWHERE)

    def close(self, error: HutongError) -> None:
        """Answer waiting fetches without records."""
        self.fetches.waits.close(error)
        for groups in self.groups:
            groups.close()
        self.deliveries.close()


def make_share_groups(
    environment: BrokerEnvironment,
    *,
    progress: ProgressPort,
    versions: ProgressVersions,
    topics: Topics,
    configs: GroupConfigs,
    disk_reads: DiskReads,
    read_actors: ReadActors,
    offload: Offload,
) -> ShareGroupParts:
    """Make all parts but the coordinator and the progress."""
    settings, clock, wheel = environment.settings, environment.clock, environment.wheel
    limits = translate.share_settings(settings)
    broker_settings = translate.broker_settings(settings)
    logs = ShareLogs(
        topics,
        clock,
        offload,
        creates_topics=broker_settings.auto_create_topics,
        default_partitions=broker_settings.default_partitions,
    )
    rules_of = ShareRules(limits, configs.of)
    deliveries = Deliveries(
        clock=clock,
        timers=wheel,
        progress=progress,
        versions=versions,
        logs=logs,
        rules_of=rules_of,
        settings=limits,
    )
    waits: WaitTable[None] = WaitTable("share_fetches", wheel, _WAITS_MAX)
    held: WaitTable[None] = WaitTable("share_sessions", wheel, _SESSIONS_MAX)
    environment.sources.waits |= {"share_fetches": waits, "share_sessions": held}

    def session_ended(session: ShareSession) -> None:
        deliveries.release_member(session.member_id, session.group_id)
        if not sessions.has_group(session.group_id):
            deliveries.leave(session.group_id)

    sessions = ShareSessions(held, limits.max_share_sessions, session_ended)

    def make_coordinator(state: StatePort, directory: GroupDirectory) -> ShareCoordinator:
        groups = ShareCoordinator(
            clock=clock,
            timers=wheel,
            state=state,
            progress=progress,
            deliveries=deliveries,
            directory=directory,
            rules_of=rules_of,
            find_topic=lambda name: _shape_of(topics, name),
            settings=limits,
        )
        groups.on_gone = sessions.end
        return groups

    fetches = ShareFetches(
        deliveries, rules_of, logs, disk_reads, read_actors, waits, clock, environment.loop.call_soon
    )
    parts = ShareGroupParts(logs, deliveries, sessions, fetches, make_coordinator)
    topics.on_change.append(parts.topic_changed)
    return parts


async def load_share_groups(
    state: StateTopic, parts: ShareGroupParts, kept: KeptProgress, directory: GroupDirectory
) -> None:
    """Replay groups and progress of a node alone from their one log. Raises CorruptData, StorageError."""
    groups = parts.make_coordinator(state, directory)
    parts.groups, parts.kept = [groups], [kept]

    def replay(key: bytes, value: bytes | None) -> None:
        decoded = decode_key(key)
        if isinstance(decoded, PartitionKey):
            kept.replay(decoded, value)
        else:
            groups.replay(key, value)

    await state.replay(replay)
    state.on_late = progress_of(kept)
    groups.start(kept.groups())


def progress_of(kept: KeptProgress) -> Callable[[bytes, bytes | None], None]:
    """Apply the records of progress, and no others: those of groups need no later look."""

    def apply(key: bytes, value: bytes | None) -> None:
        decoded = decode_key(key)
        if isinstance(decoded, PartitionKey):
            kept.replay(decoded, value)

    return apply


def _shape_of(topics: Topics, name: str) -> TopicShape | None:
    topic = topics.get(name)
    return TopicShape(topic.topic_id, len(topic.partitions)) if topic is not None else None
