"""The coordinator of share groups, with their sessions and the fetches that wait for records.

Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.broker.share.share_fetches import ShareFetches
from hutong.broker.share.share_logs import ShareLogs
from hutong.broker.share.share_sessions import ShareSession, ShareSessions
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.share.configs import ShareRules
from hutong.groups.share.driver import ShareCoordinator
from hutong.groups.share.members.messages import TopicShape
from hutong.server.configuration import translate

if TYPE_CHECKING:
    from hutong.broker.fetch.disk_reads import DiskReads
    from hutong.broker.fetch.read_actors import ReadActors
    from hutong.broker.state.state_topic import StateTopic
    from hutong.broker.topics.catalogue import Topics
    from hutong.broker.topics.partition import Topic
    from hutong.foundation.errors import HutongError
    from hutong.groups.configs import GroupConfigs
    from hutong.groups.directory import GroupDirectory
    from hutong.runtime.threads.offload import Offload
    from hutong.server.broker.environment import BrokerEnvironment

_SESSIONS_MAX: Final = 1_000_000  # the setting bounds them: this is the table's own
_WAITS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class ShareGroupParts:
    """Everything of share groups that the broker uses."""

    groups: ShareCoordinator
    sessions: ShareSessions
    fetches: ShareFetches

    def close(self, error: HutongError) -> None:
        """Answer waiting fetches without records."""
        self.fetches.waits.close(error)
        self.groups.close()


async def open_share_groups(
    environment: BrokerEnvironment,
    *,
    state: StateTopic,
    topics: Topics,
    directory: GroupDirectory,
    configs: GroupConfigs,
    disk_reads: DiskReads,
    read_actors: ReadActors,
    offload: Offload,
) -> ShareGroupParts:
    """Replay the groups' state and start them. Raises CorruptData, StorageError."""
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
    groups = ShareCoordinator(
        clock=clock,
        timers=wheel,
        state=state,
        logs=logs,
        directory=directory,
        rules_of=ShareRules(limits, configs.of),
        find_topic=lambda name: _shape_of(topics, name),
        settings=limits,
    )
    await state.replay(groups.replay)
    state.on_late = groups.apply_late
    groups.start()
    waits: WaitTable[None] = WaitTable("share_fetches", wheel, _WAITS_MAX)
    held: WaitTable[None] = WaitTable("share_sessions", wheel, _SESSIONS_MAX)
    environment.sources.waits |= {"share_fetches": waits, "share_sessions": held}

    def session_ended(session: ShareSession) -> None:
        groups.deliveries.release_member(session.member_id, groups.deliveries.keys_of(session.group_id))

    sessions = ShareSessions(held, limits.max_share_sessions, session_ended)
    groups.on_gone = sessions.end
    topics.on_change.append(lambda topic, exists: _topic_changed(groups, topic, exists))
    fetches = ShareFetches(groups, logs, disk_reads, read_actors, waits, clock, environment.loop.call_soon)
    return ShareGroupParts(groups, sessions, fetches)


def _shape_of(topics: Topics, name: str) -> TopicShape | None:
    topic = topics.get(name)
    return TopicShape(topic.topic_id, len(topic.partitions)) if topic is not None else None


def _topic_changed(groups: ShareCoordinator, topic: Topic, exists: bool) -> None:
    if not exists:
        groups.deliveries.forget_topic(topic.topic_id)
    groups.topics_changed(topic.name)
