"""The catalogue of topics, with their partitions, settings and logs.

Strategy: the catalogue is a replayed log (`__hutong_metadata`). A change is decided, written as a record, and applied
only when that record is durable; replaying records at start applies them by the same code, so that memory can never
say more than the disk. Changes of one topic are in order because the log is.

Knows nothing of requests. Logs come from the journals it is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from hutong.broker.topics.internal_topics import MADE_BY_NODE, ONE_LEADER, check_maker
from hutong.broker.topics.lifetimes import dealt_slots, group_of_slot, partition_group_for, slot_at
from hutong.broker.topics.partition import ChangesUnderWay, Partition, Topic, TopicRecord, record_of
from hutong.broker.topics.partition_budget import PartitionBudget
from hutong.broker.topics.topic_config import check_overrides, effective
from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.foundation.fair_shares import NOBODY
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.group_standing import GroupStanding
    from hutong.foundation.waiting.table import WaitTable
    from hutong.journal.journal import Journal

TOPIC_NAME_LENGTH_MAX: Final = 249
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
LOG_ID_BLOCK: Final = 1_000
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_KEY: Final = b"topic/"
_LOG_IDS_KEY: Final = b"log-ids"

_NO_OVERRIDES: Final[Mapping[str, str | None]] = MappingProxyType({})


class StateLog(Protocol):
    """The log of the catalogue's records: an internal compacted topic."""

    def append(self, key: bytes, value: bytes | None, then: Continuation[None]) -> None:
        """Append; `then` is called with None once durable, or with the error."""
        ...


class WideStateLog(StateLog, Protocol):
    """One that takes many records at once, too."""

    def append_all(self, entries: Sequence[tuple[bytes, bytes | None]], then: Continuation[None]) -> None:
        """Append all: after a crash all of it is there or nothing."""
        ...


def check_topic_name(name: str) -> None:
    """Kafka's rule for names. Raises Refused(INVALID_TOPIC_EXCEPTION)."""
    if not name:
        problem = "the empty string is not allowed"
    # Kafka keeps a topic's log in a folder of this name, where they would mean other folders.
    elif name in {".", ".."}:
        problem = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"the length of the name is longer than {TOPIC_NAME_LENGTH_MAX}"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = "it has a character other than ASCII letters and digits, '.', '_' and '-'"
    else:
        return
    raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def why_missing(name: str) -> int:
    """The code for a topic that is not there: no topic can have that name, or none has it now."""
    try:
        check_topic_name(name)
    except Refused as refused:
        return refused.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Topics:
    """All topics of this node, and the only way to change them.

    `journals` and `standings` have an entry for each partition group. New partitions are dealt over `slots`.
    """

    def __init__(
        self,
        journals: Mapping[str, Journal],
        defaults: Mapping[str, str],
        random_bytes: Callable[[int], bytes],
        creations: WaitTable[Topic],
        standings: Mapping[str, GroupStanding],
        slots: int = 1,
    ) -> None:
        self.standings = standings
        self.defaults = dict(defaults)
        self.budget = PartitionBudget()
        self._journals = journals
        self._slots = slots
        self._random_bytes = random_bytes
        self._creations = creations
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_flat_name: dict[str, str] = {}  # names with `_` for `.`, which are one and the same in Kafka's metrics
        self._places: Mapping[int, str] = {}  # the groups of logs that are not where they were created
        self._being_created: set[str] = set()
        self._under_way: dict[str, ChangesUnderWay] = {}
        self._greatest_log_id = 0  # of all topics that were ever seen here
        self._next_log_id = 1
        self._log_ids_end = 1  # ids below this are reserved by a record; never less than _next_log_id
        self._state: StateLog | None = None
        self.has_schema_demands, self.version = False, 0  # of any topic, ever; the version rises with every change
        self.on_change: list[Callable[[Topic, bool], None]] = []  # called with (topic, exists) after each change
        self.on_standing: list[Callable[[str], None]] = []  # called with a group whose leader may have changed

    # -- reading

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def newest_last(self) -> list[Topic]:
        """Every topic in the order in which this process came to know them: new ones change no other's place."""
        return list(self._by_name.values())

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self._by_name.get(name)
        return topic.partition(index) if topic is not None else None

    # -- replaying

    def start(self, state: StateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._state = state
        self.lead()

    def lead(self) -> None:
        """Take changes from now on. Every record is applied; what this node had begun when it led last has failed."""
        # Ids are reserved in blocks; the rest of a former block is skipped, so that no log of a lost topic is reused.
        self._next_log_id = max(self._next_log_id, self._log_ids_end)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log; `value` is None where the topic was deleted."""
        if key == _LOG_IDS_KEY and value is not None:
            # Never lower: an id that was given out may name a log that is still on disk.
            self._log_ids_end = max(self._log_ids_end, int(value))
        elif key.startswith(_TOPIC_KEY):
            name = key[len(_TOPIC_KEY) :].decode()
            if value is None:
                self._forget(name)
            else:
                self._put(name, json.loads(value))

    def add_internal(self, topic: Topic) -> None:
        """An internal topic is there by construction, without a record."""
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    # -- changing

    def check_creation(
        self, name: str, partition_count: int, overrides: Mapping[str, str | None], holder: str = NOBODY
    ) -> dict[str, str]:
        """Check a creation; returns the overrides to store. Raises Refused with Kafka's code.

        `holder` is the client that asks, whose share of all partitions it counts against.
        """
        check_topic_name(name)
        if name in self._by_name or name in self._being_created:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        check_maker(name, holder)
        # Kafka refuses such pairs, since metric names would collide.
        twin = self._by_flat_name.get(name.replace(".", "_"), name)
        if twin != name:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {twin}.")
        if not 0 < partition_count <= PARTITIONS_PER_TOPIC_MAX:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS, f"A topic has from 1 to {PARTITIONS_PER_TOPIC_MAX} partitions here."
            )
        # Each partition costs memory and files, so one client may not take all that the node can hold.
        if not self.budget.has_room(holder, partition_count):
            raise Refused(ErrorCode.POLICY_VIOLATION, self._no_room())
        return check_overrides(overrides)

    def create(
        self,
        name: str,
        partition_count: int,
        overrides: Mapping[str, str | None],
        then: Continuation[Topic],
        holder: str = NOBODY,
    ) -> None:
        """Create a topic; `then` gets it once it is durable. Raises Refused like `check_creation`."""
        checked = self.check_creation(name, partition_count, overrides, holder)
        group = partition_group_for(effective(checked, self.defaults))
        # The record could be written all the same, but the topic could not take a single batch.
        if (reason := self._journals[group].offline) is not None and self.standings[group].is_led_here:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"The partition group {group} is offline: {reason}")
        self._await_creation(name, then)
        topic_id = self._random_bytes(16)
        is_dealt = name not in ONE_LEADER
        slots = dealt_slots(topic_id, 0, partition_count, self._slots) if is_dealt else [0] * partition_count
        record = record_of(topic_id, group, self._take_log_ids(partition_count), checked, slots)
        # Until the record is durable, so that two requests do not create it twice.
        self._being_created.add(name)
        # Before the record is durable: requests at the same time must not pass the bound together.
        self.budget.note(name, partition_count, holder)
        self._record(name, record, lambda error: self._created(name, record, error))

    def get_or_create(
        self,
        name: str,
        partition_count: int,
        then: Continuation[Topic],
        holder: str = NOBODY,
        overrides: Mapping[str, str | None] = _NO_OVERRIDES,
    ) -> None:
        """The topic, created first where it is missing; callers that come while it is being made share the result.

        Raises Refused like `check_creation`.
        """
        topic = self._by_name.get(name)
        if topic is not None:
            then(topic)
        # Consumers and producers that start together ask for the same topic within milliseconds.
        elif name in self._being_created:
            self._await_creation(name, then)
        else:
            self.create(name, partition_count, overrides, then, holder)

    def delete(self, topic: Topic, then: Continuation[None]) -> None:
        """Delete a topic and its logs; `then` is called once that is durable."""

        def deleted(error: HutongError | None) -> None:
            if error is None:
                self._forget(topic.name)
            then(error)

        # The tombstone first: a crash after it leaves logs that no topic owns, and `orphaned_logs` finds them.
        self._record(topic.name, None, deleted)

    def overrides_of(self, topic: Topic) -> Mapping[str, str]:
        """The settings of a topic after all changes under way. Raises Refused."""
        return self._newest(topic)["config"]

    def alter(self, topic: Topic, overrides: Mapping[str, str | None], then: Continuation[None]) -> None:
        """Replace the settings of a topic. Raises Refused(INVALID_CONFIG)."""
        newest = self._newest(topic)
        self._change(topic, check_overrides(overrides), newest["partitions"], newest.get("slots", ()), then)

    def set_defaults(self, defaults: Mapping[str, str]) -> None:
        """Set the defaults for topics without a setting of their own; they take effect at once."""
        self.defaults = dict(defaults)
        for topic in self._by_name.values():
            # Internal topics have settings that the node relies on.
            if not topic.is_internal:
                self._configure(topic)
                self._announce(topic, exists=True)

    def add_partitions(self, topic: Topic, count: int, then: Continuation[None]) -> None:
        """Grow a topic to `count` partitions. Raises Refused(INVALID_PARTITIONS)."""
        self.check_growth(topic, count)
        self.budget.note(topic.name, count)

        def grown(error: HutongError | None) -> None:
            # Back to the old count, unless the topic was deleted meanwhile.
            if error is not None and self._by_name.get(topic.name) is topic:
                self.budget.note(topic.name, len(topic.partitions))
            then(error)

        # New partitions come behind the old ones, whose indexes clients hash keys to.
        newest = self._newest(topic)
        before = len(newest["partitions"])
        log_ids = [*newest["partitions"], *self._take_log_ids(count - before)]
        slots = [*newest.get("slots", [0] * before), *dealt_slots(topic.topic_id, before, count, self._slots)]
        self._change(topic, newest["config"], log_ids, slots, grown)

    def check_growth(self, topic: Topic, count: int) -> None:
        """Check that a topic may grow to `count` partitions. Raises Refused(INVALID_PARTITIONS)."""
        now = len(self._newest(topic)["partitions"])
        # Kafka never shrinks a topic: the records of a partition that went would be lost.
        if count <= now:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {now} partition(s); {count} would not be an increase.",
            )
        if count > PARTITIONS_PER_TOPIC_MAX:
            raise Refused(ErrorCode.INVALID_PARTITIONS, f"At most {PARTITIONS_PER_TOPIC_MAX} partitions a topic.")
        # It counts against the client that created the topic, not the one that grows it.
        if not self.budget.has_room(self.budget.holder(topic.name), count - now):
            raise Refused(ErrorCode.INVALID_PARTITIONS, self._no_room())

    def rebind(self, group: str) -> None:
        """Take the logs of a group from its journal anew, which is another object now. Ends all fast paths."""
        journal = self._journals[group]
        self.version += 1
        for partition in self.of_group(group):
            partition.rebind(journal.log(partition.log.partition_id))

    def place(self, places: Mapping[int, str]) -> None:
        """Go by these groups of all logs that are not where they were created. Ends all fast paths."""
        self._places = places
        self.version += 1
        for topic in self._by_name.values():
            for partition, log_id in zip(topic.partitions, topic.log_ids, strict=True):
                group = places.get(log_id, partition.group)
                if group != partition.group:
                    topic.is_scattered = True
                    partition.place(group, self.standings[group], self._journals[group].log(log_id))

    def standing_changed(self, group: str) -> None:
        """Notice a changed standing of a group: fast paths end, and waits for what is no longer led here end, too."""
        self.version += 1
        # Readers that wait are answered NOT_LEADER_OR_FOLLOWER by the pass that this begins.
        if not self.standings[group].is_led_here:
            for partition in self.of_group(group):
                partition.log.notify_watchers()
        for notice in self.on_standing:
            notice(group)

    def of_group(self, group: str) -> Iterable[Partition]:
        """All partitions of a partition group."""
        for topic in list(self._by_name.values()):
            for partition in topic.partitions:
                if partition.group == group:
                    yield partition

    def orphans_of(self, group: str) -> list[int]:
        """The logs of a group that no topic owns for certain: a greater id may be of a topic that is not known yet."""
        owned = {partition.log.partition_id for partition in self.of_group(group)}
        found = self._journals[group].log_ids()
        return [log_id for log_id in found if log_id <= self._greatest_log_id and log_id not in owned]

    def orphaned_logs(self) -> Iterable[tuple[Journal, int]]:
        """Logs on disk that no topic owns: a deletion was recorded but its data outlived a crash."""
        owned = {log_id for topic in self._by_name.values() for log_id in topic.log_ids}
        for journal in self._journals.values():
            for log_id in journal.log_ids():
                if log_id not in owned:
                    yield journal, log_id

    # -- inside

    def _no_room(self) -> str:
        return (
            f"This node holds at most {self.budget.maximum} partitions, and of one client's topics at most three times "
            "what is left: delete topics that nobody needs."
        )

    def _await_creation(self, name: str, then: Continuation[Topic]) -> None:
        """Wait for a creation. Raises Refused if too many are on their way to the disk already."""
        try:
            self._creations.park(name, then)
        # Kafka's code for too many creations (KIP-599): admin clients retry it after a pause.
        except LimitExceeded as full:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"Too many topics are being created: {full}.") from None

    def _newest(self, topic: Topic) -> TopicRecord:
        """The topic after all changes under way. Raises Refused where one of them deletes it.

        A change that began with what is durable would undo those under way: its record has the whole topic.
        """
        under_way = self._under_way.get(topic.name)
        if under_way is None:
            return record_of(topic.topic_id, topic.group, topic.log_ids, topic.overrides, topic.slots)
        # As in Kafka's controller, which applies a change before it is durable. Its record would bring the topic back.
        if under_way.newest is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {topic.name} is being deleted.")
        return under_way.newest

    def _change(
        self,
        topic: Topic,
        overrides: dict[str, str],
        log_ids: list[int],
        slots: Sequence[int],
        then: Continuation[None],
    ) -> None:
        record = record_of(topic.topic_id, topic.group, log_ids, overrides, slots)

        def changed(error: HutongError | None) -> None:
            # It may have been deleted between the append and its outcome.
            if error is None and topic.name in self._by_name:
                self._put(topic.name, record)
            then(error)

        self._record(topic.name, record, changed)

    def _record(self, name: str, record: TopicRecord | None, then: Continuation[None]) -> None:
        """Append a topic's record, or its tombstone."""
        under_way = self._under_way.setdefault(name, ChangesUnderWay())
        under_way.newest = record
        under_way.count += 1

        def ended(error: HutongError | None) -> None:
            under_way.count -= 1
            # After an error the next change begins with what is durable. One that is written later after all is
            # reported before anything new is taken.
            if not under_way.count:
                del self._under_way[name]
            then(error)

        value = None if record is None else json.dumps(record, separators=(",", ":")).encode()
        self._append(_TOPIC_KEY + name.encode(), value, ended)

    def _append(self, key: bytes, value: bytes | None, then: Continuation[None]) -> None:
        assert self._state is not None, "the catalogue is changed before it was started"
        self._state.append(key, value, then)

    def _created(self, name: str, record: TopicRecord, error: HutongError | None) -> None:
        self._being_created.discard(name)
        if error is not None:
            self.budget.forget(name)
            # All callers that joined this creation get the error; the next one tries anew.
            self._creations.fail_all(name, error)
            return
        self._creations.resume_all(name, self._put(name, record))

    def _take_log_ids(self, count: int) -> list[int]:
        """Ids for new logs. The reservation precedes the topic's record in the same log, so it is durable no later."""
        first = self._next_log_id
        self._next_log_id += count
        # A block at a time: a record for each id would double the writes of a creation.
        if self._next_log_id > self._log_ids_end:
            self._log_ids_end = self._next_log_id + LOG_ID_BLOCK
            self._append(_LOG_IDS_KEY, str(self._log_ids_end).encode(), self._reserved)
        return list(range(first, self._next_log_id))

    def _reserved(self, error: HutongError | None) -> None:
        if error is not None:
            self._log_ids_end = 0  # not on record: the next topic must reserve its ids anew

    def _put(self, name: str, record: TopicRecord) -> Topic:
        overrides, log_ids, group = record["config"], record["partitions"], record["group"]
        config = effective(overrides, self.defaults)
        topic = self._by_name.get(name)
        topic_id = bytes.fromhex(record["id"])
        # Deleted and made again: the name is the same, the logs are not.
        if topic is None or topic.topic_id != topic_id:
            # KIP-516: the id changes with each creation, so clients notice that the records are others.
            topic = Topic(name, topic_id, group, [], overrides, config, is_internal=name in MADE_BY_NODE)
            self._by_name[name] = topic
            self._by_id[topic_id] = topic
            self._by_flat_name.setdefault(name.replace(".", "_"), name)
        topic.overrides = overrides
        topic.slots = record.get("slots", ())
        # Partitions are only ever added.
        for index in range(len(topic.log_ids), len(log_ids)):
            log_id = log_ids[index]
            own = self._places.get(log_id) or group_of_slot(group, slot_at(topic.slots, index))
            topic.is_scattered |= log_id in self._places
            log, standing = self._journals[own].log(log_id), self.standings[own]
            own_partition = Partition(name, index, log, config, own, standing, is_internal=topic.is_internal)
            topic.partitions.append(own_partition)
            self._greatest_log_id = max(self._greatest_log_id, log_id)
        topic.log_ids = log_ids
        self.budget.note(name, len(log_ids))
        self._configure(topic)
        self._announce(topic, exists=True)
        return topic

    def _configure(self, topic: Topic) -> None:
        topic.config = config = effective(topic.overrides, self.defaults)
        self.has_schema_demands |= bool(config.schemas)
        for partition in topic.partitions:
            partition.configure(config)

    def _forget(self, name: str) -> None:
        topic = self._by_name.pop(name, None)
        if topic is None:
            return
        del self._by_id[topic.topic_id]
        # Most internal topics are not in that table, and another topic may have the place.
        if self._by_flat_name.get(name.replace(".", "_")) == name:
            del self._by_flat_name[name.replace(".", "_")]
        self.budget.forget(name)
        for partition in topic.partitions:
            # Only a leader writes to the stream: followers learn of the deletion by it.
            if partition.standing.is_led_here:
                self._journals[partition.group].delete_log(partition.log.partition_id)
            else:
                partition.log.notify_watchers()
        self._announce(topic, exists=False)

    def _announce(self, topic: Topic, exists: bool) -> None:
        # Caches of routes and fast paths compare this number instead of being called.
        self.version += 1
        # After the change is applied: a listener asks the catalogue, and must find the new state.
        for listener in self.on_change:
            listener(topic, exists)
