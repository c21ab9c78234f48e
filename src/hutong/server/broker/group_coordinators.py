"""The coordinators of all kinds of groups, replayed from their one topic and started in order.

Strategy: the version in front of a record's key says whose it is. Groups whose partitions the broker assigns are taken
up first, since an id that has records of theirs is theirs; classic groups take what offsets remain.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

from hutong.broker.state.state_topic import StateTopic
from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.partition import Topic
from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.groups.classic.driver import GroupCoordinator
from hutong.groups.configs import GroupConfigs
from hutong.groups.consumer.assignment.catalogue import TopicFacts
from hutong.groups.consumer.configs import GREATER as CONSUMER_GREATER
from hutong.groups.consumer.configs import config_keys, times_of
from hutong.groups.consumer.driver import ConsumerGroupCoordinator
from hutong.groups.consumer.records import KEY_VERSIONS as CONSUMER_KEY_VERSIONS
from hutong.groups.share.configs import GREATER as SHARE_GREATER
from hutong.groups.share.configs import config_keys as share_config_keys
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Settings


@dataclass(frozen=True, slots=True)
class GroupRooms:
    """Every kind of group of one node."""

    classic: GroupCoordinator
    consumer: ConsumerGroupCoordinator

    def close(self) -> None:
        """Answer everything that waits."""
        self.classic.close()
        self.consumer.close()


def group_configs(settings: Settings) -> GroupConfigs:
    """What each kind of group lets single groups set; to be replayed from the catalogue."""
    keys = config_keys(translate.consumer_group_settings(settings))
    return GroupConfigs(
        [*keys, *share_config_keys(translate.share_settings(settings))], (*CONSUMER_GREATER, *SHARE_GREATER)
    )


async def open_groups(
    state: StateTopic,
    topics: Topics,
    clock: Clock,
    wheel: TimerWheel,
    settings: Settings,
    configs: GroupConfigs,
    deletion_ms: Callable[[], int],
) -> GroupRooms:
    """Groups as their log has them, started. Raises CorruptData."""
    classic = GroupCoordinator(
        clock=clock,
        timers=wheel,
        state=state,
        random_bytes=os.urandom,
        topic_exists=lambda name, index: topics.partition(name, index) is not None,
        settings=translate.group_settings(settings),
        deletion_ms=deletion_ms,
    )
    consumer = ConsumerGroupCoordinator(
        clock=clock,
        timers=wheel,
        state=state,
        random_bytes=os.urandom,
        classic=classic,
        settings=translate.consumer_group_settings(settings),
        times_of=lambda group_id: times_of(configs, group_id),
    )
    configs.on_change.append(consumer.settings_changed)
    rooms = GroupRooms(classic, consumer)
    await state.replay(_by_kind(rooms))
    state.on_late = _late_by_kind(rooms)
    for topic in topics.all():
        consumer.topic_changed(_facts(topic), exists=True)
    topics.on_change.append(lambda topic, exists: _topic_changed(rooms, topic, exists))
    consumer.start()
    classic.start()
    return rooms


def _by_kind(rooms: GroupRooms) -> Callable[[bytes, bytes | None], None]:
    def replay(key: bytes, value: bytes | None) -> None:
        if int.from_bytes(key[:2], "big") in CONSUMER_KEY_VERSIONS:
            rooms.consumer.replay(key, value)
        else:
            rooms.classic.replay(key, value)

    return replay


def _late_by_kind(rooms: GroupRooms) -> Callable[[bytes, bytes | None], None]:
    """What a consumer group believes is ahead of the disk already: records that come late tell it nothing."""

    def late(key: bytes, value: bytes | None) -> None:
        if int.from_bytes(key[:2], "big") not in CONSUMER_KEY_VERSIONS:
            rooms.classic.apply_late(key, value)

    return late


def _topic_changed(rooms: GroupRooms, topic: Topic, exists: bool) -> None:
    if not exists:
        rooms.classic.forget_topic(topic.name)
    rooms.consumer.topic_changed(_facts(topic), exists)


def _facts(topic: Topic) -> TopicFacts:
    return TopicFacts(topic.name, topic.topic_id, len(topic.partitions), topic.is_internal)
