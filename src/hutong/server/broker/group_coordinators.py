"""The coordinators of all kinds of groups and of their offsets, replayed from their one topic and started in order.

Strategy: the version at the start of a record's key names the kind of the record. Groups whose partitions the broker
assigns start first, because an id that has records of theirs is theirs. Classic groups take the ids of remaining
offsets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hutong.broker.handling.node_facts import Coordination
from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.internal_topics import OFFSETS_TOPIC
from hutong.broker.topics.partition import Topic
from hutong.foundation.machine_host import StatePort, StateRecord
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.actor_configs import config_keys as actor_config_keys
from hutong.groups.classic.driver import GroupCoordinator
from hutong.groups.configs import GroupConfigs
from hutong.groups.consumer.assignment.catalogue import TopicFacts
from hutong.groups.consumer.configs import GREATER as CONSUMER_GREATER
from hutong.groups.consumer.configs import config_keys, times_of
from hutong.groups.consumer.driver import ConsumerGroupCoordinator
from hutong.groups.consumer.records import RECORDS as CONSUMER_RECORDS
from hutong.groups.directory import GroupDirectory
from hutong.groups.offsets.coordinator import OffsetCoordinator
from hutong.groups.record_keys import GROUP_KEY_VERSION
from hutong.groups.rocketmq_configs import config_keys as rocketmq_config_keys
from hutong.groups.share.configs import GREATER as SHARE_GREATER
from hutong.groups.share.configs import config_keys as share_config_keys
from hutong.groups.share.driver import ShareCoordinator
from hutong.groups.share.records import OFFSETS_KEY_VERSION, in_offsets, out_of_offsets
from hutong.groups.streams.configs import GREATER as STREAMS_GREATER
from hutong.groups.streams.configs import config_keys as streams_config_keys
from hutong.groups.streams.configs import rules_of
from hutong.groups.streams.driver import StreamsGroupCoordinator
from hutong.groups.streams.records import RECORDS as STREAMS_RECORDS
from hutong.server.broker.coordinator_life import Apply, CoordinatorLife, NoState
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class GroupCoordinators:
    """Every kind of group of one node, but share groups, and the offsets of all."""

    directory: GroupDirectory
    offsets: OffsetCoordinator
    classic: GroupCoordinator
    consumer: ConsumerGroupCoordinator
    streams: StreamsGroupCoordinator
    share: ShareCoordinator | None = None  # where their groups are in this log, too: among several nodes

    def close(self) -> None:
        """Answer every waiting request."""
        self.classic.close()
        self.consumer.close()
        self.streams.close()
        if self.share is not None:
            self.share.close()
        self.offsets.close()


def group_configs(settings: Settings) -> GroupConfigs:
    """The configs that single groups may set, of each kind of group. The catalogue's log replays them."""
    keys = config_keys(translate.consumer_group_settings(settings))
    share_keys = share_config_keys(translate.share_settings(settings))
    streams_keys = streams_config_keys(translate.streams_group_settings(settings))
    return GroupConfigs(
        [*keys, *share_keys, *streams_keys, *actor_config_keys(), *rocketmq_config_keys()],
        (*CONSUMER_GREATER, *SHARE_GREATER, *STREAMS_GREATER),
    )


class ShareGroupState:
    """The state of share groups in the log of all groups."""

    def __init__(self, state: StatePort) -> None:
        self._state = state

    def append_all(self, records: Sequence[StateRecord], then: Continuation[None]) -> None:
        self._state.append_all([(in_offsets(key), value) for key, value in records], then)


class GroupLife(CoordinatorLife[GroupCoordinators]):
    """The coordinators of groups on this node, with all offsets.

    Closed ones answer COORDINATOR_NOT_AVAILABLE.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        topics: Topics,
        configs: GroupConfigs,
        deletion_ms: Callable[[], int],
        coordination: Coordination,
    ) -> None:
        self.make_share: Callable[[StatePort, GroupDirectory], ShareCoordinator] | None = None
        self._topics = topics
        self._configs = configs
        self._deletion_ms = deletion_ms
        self._coordination = coordination
        super().__init__(environment, OFFSETS_TOPIC, "groups")

    def close(self) -> None:
        """Answer everything that waits, because the node stops. What is on its way to the log still gets there."""
        self.parts.close()

    def _set_code(self, code: ErrorCode) -> None:
        super()._set_code(code)
        self._coordination.groups = code

    def _begin(self, parts: GroupCoordinators) -> None:
        for topic in self._topics.all():
            parts.consumer.topic_changed(_facts(topic), exists=True)
        self._topics.on_change.append(self._topic_changed)
        self._configs.on_change.append(self._settings_changed)
        parts.consumer.start()
        parts.streams.start()
        if parts.share is not None:
            parts.share.start()
        parts.classic.start()
        parts.offsets.start()

    def _end(self, parts: GroupCoordinators) -> None:
        self._topics.on_change.remove(self._topic_changed)
        self._configs.on_change.remove(self._settings_changed)
        parts.close()

    def _closed(self) -> GroupCoordinators:
        groups = self._made(NoState())
        groups.close()
        return groups

    def _replay_of(self, parts: GroupCoordinators) -> Apply:
        return _by_kind(parts)

    def _late_of(self, parts: GroupCoordinators) -> Apply:
        return _late_by_kind(parts)

    def _make(self, state: StatePort, _epoch: int) -> GroupCoordinators:
        return self._made(state)

    def _made(self, state: StatePort) -> GroupCoordinators:
        settings, clock, wheel = self._environment.settings, self._environment.clock, self._environment.wheel
        random_bytes, configs, topics = self._environment.ports.random_bytes, self._configs, self._topics
        group_settings = translate.group_settings(settings)
        directory = GroupDirectory(group_settings.groups_max)
        offsets = OffsetCoordinator(
            clock=clock,
            timers=wheel,
            state=state,
            directory=directory,
            settings=group_settings,
            topic_exists=lambda name, index: topics.partition(name, index) is not None,
            deletion_ms=self._deletion_ms,
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
        streams = StreamsGroupCoordinator(
            clock=clock,
            timers=wheel,
            state=state,
            directory=directory,
            offsets=offsets,
            classic=classic,
            catalogue=consumer.catalogue,
            settings=translate.streams_group_settings(settings),
            rules_of=lambda group_id: rules_of(configs, group_id),
        )
        share = None if self.make_share is None else self.make_share(ShareGroupState(state), directory)
        return GroupCoordinators(directory, offsets, classic, consumer, streams, share)

    def _topic_changed(self, topic: Topic, exists: bool) -> None:
        if not exists:
            self.parts.offsets.forget_topic(topic.name)
        if self.parts.consumer.topic_changed(_facts(topic), exists):
            self.parts.streams.topic_changed(topic.name)

    def _settings_changed(self, group_id: str) -> None:
        self.parts.consumer.settings_changed(group_id)
        self.parts.streams.settings_changed(group_id)


def _by_kind(groups: GroupCoordinators) -> Callable[[bytes, bytes | None], None]:
    def replay(key: bytes, value: bytes | None) -> None:
        version = int.from_bytes(key[:2], "big")
        if version in CONSUMER_RECORDS.key_versions:
            groups.consumer.replay(key, value)
        elif version in STREAMS_RECORDS.key_versions:
            groups.streams.replay(key, value)
        elif version == GROUP_KEY_VERSION:
            groups.classic.replay(key, value)
        elif version == OFFSETS_KEY_VERSION and groups.share is not None:
            groups.share.replay(out_of_offsets(key), value)
        else:
            groups.offsets.replay(key, value)

    return replay


_OF_GROUPS: Final = frozenset(
    {
        *CONSUMER_RECORDS.key_versions,
        *STREAMS_RECORDS.key_versions,
        GROUP_KEY_VERSION,
        OFFSETS_KEY_VERSION,
    }
)


def _late_by_kind(groups: GroupCoordinators) -> Callable[[bytes, bytes | None], None]:
    """Late records of offsets alone change anything: members' coordinators are ahead of the disk already."""

    def late(key: bytes, value: bytes | None) -> None:
        version = int.from_bytes(key[:2], "big")
        if version not in _OF_GROUPS:
            groups.offsets.apply_late(key, value)

    return late


def _facts(topic: Topic) -> TopicFacts:
    return TopicFacts(topic.name, topic.topic_id, len(topic.partitions), topic.is_internal)
