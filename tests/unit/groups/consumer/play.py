"""A consumer group told as a story: who beats, what time it is, what is answered. Checks invariants at every step."""

from collections.abc import Iterable
from typing import Any

from hutong.foundation.machine import Answer, Tick
from hutong.groups.assigned.messages import (
    JOINING,
    EpochNote,
    RecordKey,
    Removal,
    Remove,
    RemoveReply,
    StoreRecords,
    SubscribedTopicsChanged,
)
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.classic.messages import Join, JoinReply, Sync, SyncReply
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue, TopicFacts
from hutong.groups.consumer.machine import ConsumerGroup
from hutong.groups.consumer.members import classic_members
from hutong.groups.consumer.messages import ConsumerHeartbeat, Event, HeartbeatReply, Partition, Reply, StoredGroup
from hutong.groups.consumer.records import RECORDS
from hutong.groups.consumer.settings import ConsumerGroupSettings
from hutong.wire.kafka.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode,
)
from hutong.wire.kafka.error_codes import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 30_000
TIMES = GroupTimes(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500, assignment_interval_ms=0)
SETTINGS = ConsumerGroupSettings(times=TIMES)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"_")


def at(name: str, *indexes: int) -> frozenset[Partition]:
    """Partitions of a topic."""
    return frozenset((topic_id(name), index) for index in indexes)


class Play:
    """One group, its catalogue and its records: `topics` says how many partitions each has."""

    def __init__(self, settings: ConsumerGroupSettings = SETTINGS, **topics: int) -> None:
        self.settings = settings
        self.catalogue = TopicCatalogue()
        self.now_ms = 1_000
        self.log: dict[bytes, bytes | None] = {}
        self.stored: list[tuple[RecordKey, ...]] = []
        self.notes: list[str] = []
        self.group = ConsumerGroup("readers", self.catalogue, settings, settings.times)
        for name, count in topics.items():
            self.catalogue.put(TopicFacts(name, topic_id(name), count))

    # ---- what is asked

    def beat(self, member_id: str, epoch: int, **said: object) -> HeartbeatReply:
        reply = self.tell(ConsumerHeartbeat(1, self.now_ms, member_id, epoch, **said))  # type: ignore[arg-type]
        assert isinstance(reply, HeartbeatReply)
        return reply

    def join(self, member_id: str, *names: str, regex: str | None = None, **said: object) -> HeartbeatReply:
        """The first heartbeat of a member, which says everything."""
        return self.beat(
            member_id,
            JOINING,
            **{
                "topic_names": frozenset(names) if names or regex is None else None,
                "topic_regex": regex,
                "rebalance_timeout_ms": REBALANCE_MS,
                "owned": frozenset(),
                **said,
            },
        )

    def remove(self, *removals: Removal) -> RemoveReply:
        reply = self.tell(Remove(1, self.now_ms, removals))
        assert isinstance(reply, RemoveReply)
        return reply

    def join_classic(
        self, member_id: str, names: Iterable[str], owned: frozenset[Partition] = frozenset(), **said: Any
    ) -> JoinReply:
        """JoinGroup of a member that knows its id already."""
        topics = [self.catalogue.by_id(topic) for topic, _ in sorted(owned)]
        has = [TopicPartition(t.name, [i]) for t, (_, i) in zip(topics, sorted(owned), strict=True) if t is not None]
        metadata = encode(ConsumerProtocolSubscription(sorted(names), None, has), 1)
        event = Join(
            **{
                "ticket": 1,
                "now_ms": self.now_ms,
                "member_id": member_id,
                "new_member_id": "made-up",
                "group_instance_id": None,
                "client_id": "classic",
                "client_host": "/10.0.0.1",
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                "protocol_type": "consumer",
                "protocols": (("cooperative-sticky", metadata),),
                **said,
            }
        )
        reply = self.tell(event)
        assert isinstance(reply, JoinReply)
        return reply

    def sync_classic(self, member_id: str, generation_id: int, **said: Any) -> SyncReply:
        words: dict[str, Any] = {
            "protocol_type": "consumer",
            "protocol_name": "cooperative-sticky",
            "group_instance_id": None,
            "assignments": (),
            **said,
        }
        reply = self.tell(Sync(1, self.now_ms, member_id, generation_id=generation_id, **words))
        assert isinstance(reply, SyncReply)
        return reply

    def heartbeat_classic(self, member_id: str, generation_id: int, instance_id: str | None = None) -> ErrorCode:
        error = classic_members.heartbeat(self.group, member_id, instance_id, generation_id, self.now_ms)
        self.group.check_invariants()
        return error

    # ---- what happens

    def set_topic(self, name: str, count: int) -> None:
        self.catalogue.put(TopicFacts(name, topic_id(name), count))
        self.tell(SubscribedTopicsChanged(self.now_ms))

    def delete_topic(self, name: str) -> None:
        self.catalogue.remove(name)
        self.tell(SubscribedTopicsChanged(self.now_ms))

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, ticking whenever the group has asked for it."""
        until_ms = self.now_ms + milliseconds
        while (due_ms := self.group.next_tick_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tell(Tick(self.now_ms))
        self.now_ms = until_ms

    def restart(self) -> None:
        """A crash: what is on record is all there is."""
        stored: dict[str, StoredGroup] = {}
        for key, value in self.log.items():
            RECORDS.replay(stored, key, value)
        found = stored.get("readers", StoredGroup())
        self.group = ConsumerGroup.restored(
            "readers", self.catalogue, self.settings, self.settings.times, found, self.now_ms
        )
        self.group.check_invariants()
        self.tell(SubscribedTopicsChanged(self.now_ms))

    def tell(self, event: Event) -> Reply | None:
        epochs = (self.group.epoch, self.group.assignment_epoch)
        reply: Reply | None = None
        for instruction in self.group.handle(event):
            match instruction:
                case StoreRecords(keys):
                    assert reply is None, "what is answered is stored first"
                    self.stored.append(keys)
                    for key in keys:
                        encoded = RECORDS.encode_key("readers", key)
                        self.log.pop(encoded, None)
                        self.log[encoded] = RECORDS.encode_value(self.group, key)
                case Answer(_, answered):
                    reply = answered
                case EpochNote(text):
                    self.notes.append(text)
        self.group.check_invariants()
        assert epochs <= (self.group.epoch, self.group.assignment_epoch), "an epoch went back"
        return reply


class Client:
    """A member as clients are: it does what it is told, and says what it has."""

    def __init__(self, play: Play, member_id: str, names: Iterable[str] = (), regex: str | None = None) -> None:
        self.play = play
        self.member_id = member_id
        self.names = frozenset(names)
        self.regex = regex
        self.instance_id: str | None = None
        self.epoch = JOINING
        self.owned: frozenset[Partition] = frozenset()
        self.wanted: frozenset[Partition] = frozenset()  # the last assignment; `owned` follows by `obey`
        self.said: frozenset[Partition] | None = None
        self.has_wish = False  # there is an assignment that was not obeyed yet
        self.has_obeyed = False  # and one that was, of which the group does not know

    def beat(self, *, loses_reply: bool = False) -> HeartbeatReply:
        """One heartbeat. What it owns is said when that has changed; a client that lost a reply says everything."""
        if self.epoch <= 0:
            names = self.names if self.names or not self.regex else None
            self.owned = self.wanted = frozenset()
            reply = self.play.join(self.member_id, *(names or ()), regex=self.regex, instance_id=self.instance_id)
        else:
            reply = self.play.beat(
                self.member_id,
                self.epoch,
                instance_id=self.instance_id,
                owned=self.owned if self.said != self.owned or self.has_obeyed else None,
                rebalance_timeout_ms=REBALANCE_MS if self.said is None else -1,
                topic_names=self.names if self.said is None else None,
                topic_regex=self.regex if self.said is None else None,
            )
        if loses_reply:
            self.said = None
            return reply
        if reply.error:
            self.epoch, self.owned, self.wanted, self.said = JOINING, frozenset(), frozenset(), None
            return reply
        self.said, self.has_obeyed = self.owned, False
        self.epoch = reply.epoch
        if reply.assignment is not None:
            self.wanted, self.has_wish = reply.assignment, True
        return reply

    def obey(self) -> None:
        """Give up and take what the last assignment said; the next heartbeat says so, be it nothing new."""
        self.owned, self.has_obeyed, self.has_wish = self.wanted, self.has_obeyed or self.has_wish, False


class ClassicClient(Client):
    """A member by the classic protocol that rebalances cooperatively (KIP-429): joins, syncs, obeys, joins again."""

    def beat(self, *, loses_reply: bool = False) -> HeartbeatReply:
        """A heartbeat, or a round of JoinGroup and SyncGroup where it has to take one; told as a heartbeat is."""
        if self.epoch > JOINING and not self.has_wish:
            error = self.play.heartbeat_classic(self.member_id, self.epoch)
            if error is ErrorCode.NONE and not self.has_obeyed:
                return HeartbeatReply(error)
            if error not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.epoch, self.owned, self.wanted = JOINING, frozenset(), frozenset()
        joined = self.play.join_classic(self.member_id, self.names, self.owned)
        if loses_reply or joined.error:
            return HeartbeatReply(joined.error)
        self.epoch, self.has_obeyed = joined.generation_id, False
        synced = self.play.sync_classic(self.member_id, self.epoch)
        if synced.error is ErrorCode.NONE:
            taken = decode_assignment(synced.assignment).assigned_partitions
            self.wanted, self.has_wish = frozenset().union(*(at(each.topic, *each.partitions) for each in taken)), True
        return HeartbeatReply(synced.error)

    def obey(self) -> None:
        """A member that gave partitions up joins again: others wait for them."""
        gives_up = bool(self.owned - self.wanted)
        self.owned, self.has_obeyed, self.has_wish = self.wanted, self.has_obeyed or gives_up, False


def settle(*clients: Client, rounds: int = 12) -> None:
    """Heartbeats and obedience until nothing changes any more."""
    for _ in range(rounds):
        for client in clients:
            client.beat()
            client.obey()
