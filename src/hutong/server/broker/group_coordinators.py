"""The coordinators of all kinds of groups and of their offsets, replayed from their one topic and started in order.

Strategy: the version at the start of a record's key names the kind of the record. Groups whose partitions the broker
assigns start first, because an id that has records of theirs is theirs. Classic groups take the ids of remaining
offsets.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hutong.broker.state.state_topic import StateTopic
from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.partition import Topic
from hutong.groups.actor_configs import config_keys as actor_config_keys
from hutong.groups.classic.driver import GroupCoordinator
from hutong.groups.configs import GroupConfigs
from hutong.groups.consumer.assignment.catalogue import TopicFacts
from hutong.groups.consumer.configs import GREATER as CONSUMER_GREATER
from hutong.groups.consumer.configs import config_keys, times_of
from hutong.groups.consumer.driver import ConsumerGroupCoordinator
from hutong.groups.consumer.records import KEY_VERSIONS as CONSUMER_KEY_VERSIONS
from hutong.groups.directory import GroupDirectory
from hutong.groups.offsets.coordinator import OffsetCoordinator
from hutong.groups.record_keys import GROUP_KEY_VERSION
from hutong.groups.share.configs import GREATER as SHARE_GREATER
from hutong.groups.share.configs import config_keys as share_config_keys
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Settings


@dataclass(frozen=True, slots=True)
class GroupCoordinators:
    """Every kind of group of one node, but share groups, and the offsets of all."""

    directory: GroupDirectory
    offsets: OffsetCoordinator
    classic: GroupCoordinator
    consumer: ConsumerGroupCoordinator

    def close(self) -> None:
        """Answer every waiting request."""
        self.classic.close()
        self.consumer.close()
        self.offsets.close()


def group_configs(settings: Settings) -> GroupConfigs:
    """The configs that single groups may set, of each kind of group. The catalogue's log replays them."""
    keys = config_keys(translate.consumer_group_settings(settings))
    return GroupConfigs(
        [*keys, *share_config_keys(translate.share_settings(settings)), *actor_config_keys()],
        (*CONSUMER_GREATER, *SHARE_GREATER),
    )


async def open_groups(
    environment: BrokerEnvironment,
    state: StateTopic,
    topics: Topics,
    configs: GroupConfigs,
    deletion_ms: Callable[[], int],
) -> GroupCoordinators:
    """Replay all groups, and start their coordinators. Raises CorruptData."""
    settings, clock, wheel = environment.settings, environment.clock, environment.wheel
    random_bytes = environment.ports.random_bytes
    group_settings = translate.group_settings(settings)
    directory = GroupDirectory(group_settings.groups_max)
    offsets = OffsetCoordinator(
        clock=clock,
        timers=wheel,
        state=state,
        directory=directory,
        settings=group_settings,
        topic_exists=lambda name, index: topics.partition(name, index) is not None,
        deletion_ms=deletion_ms,
    )
    classic = GroupCoordinator(
        clock=clock, timers=wheel, state=state, random_bytes=random_bytes, directory=directory, offsets=offsets
    )
    consumer = ConsumerGroupCoordinator(
        clock=clock,
        timers=wheel,
        state=state,
        random_bytes=random_bytes,
        directory=directory,
        offsets=offsets,
        classic=classic,
        settings=translate.consumer_group_settings(settings),
        times_of=lambda group_id: times_of(configs, group_id),
    )
    configs.on_change.append(consumer.settings_changed)
    groups = GroupCoordinators(directory, offsets, classic, consumer)
    await state.replay(_by_kind(groups))
    state.on_late = _late_by_kind(groups)
    for topic in topics.all():
        consumer.topic_changed(_facts(topic), exists=True)
    topics.on_change.append(lambda topic, exists: _topic_changed(groups, topic, exists))
    consumer.start()
    classic.start()
    offsets.start()
    return groups


def _by_kind(groups: GroupCoordinators) -> Callable[[bytes, bytes | None], None]:
    def replay(key: bytes, value: bytes | None) -> None:
        version = int.from_bytes(key[:2], "big")
        if version in CONSUMER_KEY_VERSIONS:
            groups.consumer.replay(key, value)
        elif version == GROUP_KEY_VERSION:
            groups.classic.replay(key, value)
        else:
            groups.offsets.replay(key, value)

    return replay


def _late_by_kind(groups: GroupCoordinators) -> Callable[[bytes, bytes | None], None]:
    """Late records of offsets alone change anything: members' coordinators are ahead of the disk already."""

    def late(key: bytes, value: bytes | None) -> None:
        version = int.from_bytes(key[:2], "big")
        if version not in CONSUMER_KEY_VERSIONS and version != GROUP_KEY_VERSION:
            groups.offsets.apply_late(key, value)

    return late


def _topic_changed(groups: GroupCoordinators, topic: Topic, exists: bool) -> None:
    if not exists:
        groups.offsets.forget_topic(topic.name)
    groups.consumer.topic_changed(_facts(topic), exists)


def _facts(topic: Topic) -> TopicFacts:
    return TopicFacts(topic.name, topic.topic_id, len(topic.partitions), topic.is_internal)
