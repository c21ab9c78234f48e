"""A streams group told as a story: who beats, what time it is, what is answered. Checks invariants at every step."""

from collections.abc import Iterable

from tests.unit.groups.stage import topic_id

from hutong.foundation.machine import Answer, Tick
from hutong.groups.assigned.messages import (
    JOINING,
    EpochNote,
    RecordKey,
    StoreRecords,
    SubscribedTopicsChanged,
)
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue, TopicFacts
from hutong.groups.streams.machine import StreamsGroup
from hutong.groups.streams.messages import (
    Event,
    Holding,
    Reply,
    StoredStreamsGroup,
    StreamsHeartbeat,
    StreamsReply,
    TaskRole,
)
from hutong.groups.streams.records import RECORDS
from hutong.groups.streams.settings import StreamsGroupSettings, StreamsRules
from hutong.groups.streams.topology import InternalTopic, Subtopology, Topology

SESSION_MS = 10_000
REBALANCE_MS = 30_000
NO_TASKS: frozenset[Holding] = frozenset()
WORD_COUNT = Topology(
    0,
    (
        Subtopology("0", source_topics=("lines",), sink_topics=("by-word",)),
        Subtopology(
            "1", repartition_topics=(InternalTopic("by-word"),), changelog_topics=(InternalTopic("counts-changelog"),)
        ),
    ),
)
"""Two subtopologies with a repartition topic between them; the second one has state."""


def settings(*, delay_ms: int = 0, interval_ms: int = 0, standbys: int = 0) -> StreamsGroupSettings:
    rules = StreamsRules(SESSION_MS, 5_000, interval_ms, standby_replicas=standbys, initial_rebalance_delay_ms=delay_ms)
    return StreamsGroupSettings(rules=rules, members_max=20)


def active(subtopology: str, *indexes: int) -> frozenset[Holding]:
    return frozenset((TaskRole.ACTIVE, subtopology, index) for index in indexes)


class Play:
    """One group, its catalogue and its records: `topics` says how many partitions each has."""

    def __init__(self, given: StreamsGroupSettings | None = None, **topics: int) -> None:
        self.settings = given or settings()
        self.catalogue = TopicCatalogue()
        self.now_ms = 1_000
        self.log: dict[bytes, bytes | None] = {}
        self.notes: list[str] = []
        self.group = StreamsGroup("app", self.catalogue, self.settings, self.settings.rules)
        for name, count in topics.items():
            self._put(name.replace("_", "-"), count)

    @classmethod
    def counting(cls, given: StreamsGroupSettings | None = None, lines: int = 4) -> "Play":
        """A word count whose topics are all there."""
        return cls(given, lines=lines, by_word=lines, counts_changelog=lines)

    # ---- what is asked

    def beat(self, member_id: str, epoch: int, **said: object) -> StreamsReply:
        reply = self.tell(StreamsHeartbeat(1, self.now_ms, member_id, epoch, **said))  # type: ignore[arg-type]
        assert isinstance(reply, StreamsReply)
        return reply

    def join(
        self, member_id: str, *, topology: Topology = WORD_COUNT, process: str = "", **said: object
    ) -> StreamsReply:
        """The first heartbeat of a member, which says everything."""
        words = {"topology": topology, "rebalance_timeout_ms": REBALANCE_MS, "owned": NO_TASKS, **said}
        return self.beat(member_id, JOINING, process_id=process or f"process-of-{member_id}", **words)

    # ---- what happens

    def set_topic(self, name: str, count: int) -> None:
        self._put(name, count)
        self.tell(SubscribedTopicsChanged(self.now_ms))

    def delete_topic(self, name: str) -> None:
        self.catalogue.remove(name)
        self.tell(SubscribedTopicsChanged(self.now_ms))

    def create(self, reply: StreamsReply) -> None:
        """Create the topics that a reply asks for."""
        for topic in reply.to_create:
            self.set_topic(topic.name, topic.partition_count)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, ticking whenever the group has asked for it."""
        until_ms = self.now_ms + milliseconds
        while (due_ms := self.group.next_tick_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tell(Tick(self.now_ms))
        self.now_ms = until_ms

    def restart(self) -> None:
        """A crash: what is on record is all there is."""
        stored: dict[str, StoredStreamsGroup] = {}
        for key, value in self.log.items():
            RECORDS.replay(stored, key, value)
        found = stored.get("app", StoredStreamsGroup())
        rules = self.settings.rules
        self.group = StreamsGroup.restored("app", self.catalogue, self.settings, rules, found, self.now_ms)
        self.group.check_invariants()
        self.tell(SubscribedTopicsChanged(self.now_ms))

    def tell(self, event: Event) -> Reply | None:
        epochs = (self.group.epoch, self.group.assignment_epoch)
        reply: Reply | None = None
        for instruction in self.group.handle(event):
            match instruction:
                case StoreRecords(keys):
                    assert reply is None, "what is answered is stored first"
                    self._store(keys)
                case Answer(_, answered):
                    reply = answered
                case EpochNote(text):
                    self.notes.append(text)
        self.group.check_invariants()
        assert epochs <= (self.group.epoch, self.group.assignment_epoch), "an epoch went back"
        return reply

    def _store(self, keys: Iterable[RecordKey]) -> None:
        for key in keys:
            encoded = RECORDS.encode_key("app", key)
            self.log.pop(encoded, None)
            self.log[encoded] = RECORDS.encode_value(self.group, key)

    def _put(self, name: str, count: int) -> None:
        self.catalogue.put(TopicFacts(name, topic_id(name), count))


class Client:
    """A member as Kafka's clients are: it does what it is told, and says what it has when that has changed."""

    def __init__(self, play: Play, member_id: str, process: str, topology: Topology = WORD_COUNT) -> None:
        self.play = play
        self.member_id = member_id
        self.process = process
        self.topology = topology
        self.epoch = JOINING
        self.owned: frozenset[Holding] = NO_TASKS
        self.wanted: frozenset[Holding] = NO_TASKS  # the last assignment; `owned` follows by `obey`
        self.said: frozenset[Holding] | None = None

    def beat(self, *, loses_reply: bool = False) -> StreamsReply:
        if self.epoch <= 0:
            self.owned = self.wanted = NO_TASKS
            reply = self.play.join(self.member_id, topology=self.topology, process=self.process)
        else:
            owned = self.owned if self.said != self.owned else None
            reply = self.play.beat(self.member_id, self.epoch, owned=owned)
        # A client that lost a reply says everything.
        if loses_reply:
            self.said = None
            return reply
        if reply.error:
            self.epoch, self.owned, self.wanted, self.said = JOINING, NO_TASKS, NO_TASKS, None
            return reply
        self.said, self.epoch = self.owned, reply.epoch
        if reply.assignment is not None:
            self.wanted = reply.assignment
            # An assignment is confirmed, be it nothing new.
            self.said = None
        return reply

    def obey(self) -> None:
        """Give up and take what the last assignment said."""
        self.owned = self.wanted


def settle(*clients: Client, rounds: int = 12) -> None:
    """Heartbeats and obedience until nothing changes any more."""
    for _ in range(rounds):
        for client in clients:
            client.beat()
            client.obey()
