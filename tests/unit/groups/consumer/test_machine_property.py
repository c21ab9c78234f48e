"""For all histories of members and lost replies: one reader a partition, epochs that never fall, and an end.

Clients behave as real ones do (they read what they were told until they gave it up) but in any order; replies get
lost, members die, rest and come back, topics change, the node crashes. What the group believes is checked after every
event by its own invariants; here it is compared with what the clients themselves believe.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.groups.consumer.play import SESSION_MS, SETTINGS, ClassicClient, Client, Play, settle, topic_id

from hutong.groups.assigned.messages import JOINING, LEAVING, LEAVING_FOR_A_WHILE, Removal
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.consumer.messages import Partition
from hutong.groups.consumer.settings import ConsumerGroupSettings

NAMES = ("orders", "other", "offers")
SUBSCRIPTIONS: tuple[tuple[tuple[str, ...], str | None], ...] = (
    (("orders",), None),
    (("orders", "other"), None),
    ((), "o.*"),
    (("offers",), "other"),
)
STEPS = st.one_of(
    st.tuples(st.just("beat"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("beat"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("obey"), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.integers(0, 3)),
    st.tuples(st.just("rest"), st.integers(0, 3)),
    st.tuples(st.just("die"), st.integers(0, 3)),
    st.tuples(st.just("topic"), st.sampled_from(NAMES), st.integers(0, 5)),
    st.tuples(st.just("time"), st.sampled_from((100, 3_000, SESSION_MS))),
    st.tuples(st.just("crash")),
)


class World:
    """Four clients around one group; every other one has an instance id."""

    def __init__(self, interval_ms: int, has_classic: bool) -> None:
        times = GroupTimes(SESSION_MS, 500, interval_ms)
        self.play = Play(ConsumerGroupSettings(times=times, assignors=SETTINGS.assignors), orders=4, other=2)
        self.clients = [Client(self.play, f"m{n}", *SUBSCRIPTIONS[n]) for n in range(4)]
        if has_classic:
            self.clients[0] = ClassicClient(self.play, "m0", SUBSCRIPTIONS[0][0])
        for number in (1, 3):
            self.clients[number].instance_id = f"i{number}"
        self.lives = 0
        self.heard_ms: dict[str, int] = {}

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("beat", int(number), bool(loses_reply)):
                self._beat(self.clients[number], loses_reply)
            case ("obey", int(number)):
                self.clients[number].obey()
            case ("leave", int(number)):
                self._leave(self.clients[number], LEAVING)
            case ("rest", int(number)):
                if self.clients[number].instance_id is not None:
                    self._leave(self.clients[number], LEAVING_FOR_A_WHILE)
            case ("die", int(number)):
                self._begin_anew(self.clients[number])
            case ("topic", str(name), int(count)):
                self._change_topic(name, count)
            case ("time", int(milliseconds)):
                self.play.pass_time(milliseconds)
            case _:
                self.play.restart()
        self._check_readers()

    def _beat(self, client: Client, loses_reply: bool) -> None:
        reply = client.beat(loses_reply=loses_reply)
        if not reply.error:
            self.heard_ms[client.member_id] = self.play.now_ms

    def _leave(self, client: Client, epoch: int) -> None:
        """A client that leaves reads nothing any more, for any answer."""
        if client.epoch > JOINING and isinstance(client, ClassicClient):
            self.play.remove(Removal(client.member_id))
        elif client.epoch > JOINING:
            self.play.beat(client.member_id, epoch, instance_id=client.instance_id)
        self._begin_anew(client)

    def _begin_anew(self, client: Client) -> None:
        """A process ends and another takes its place, under a member id of its own (KIP-1082)."""
        self.lives += 1
        client.member_id = f"{client.member_id.split('/')[0]}/{self.lives}"
        client.epoch, client.owned, client.wanted, client.said = JOINING, frozenset(), frozenset(), None
        client.has_wish = client.has_obeyed = False

    def _change_topic(self, name: str, count: int) -> None:
        known = self.play.catalogue.get(name)
        if count == 0:
            self.play.delete_topic(name)
        elif known is None or known.partition_count < count:
            self.play.set_topic(name, count)

    def _check_readers(self) -> None:
        """Nobody reads what another reads. Who was not heard of for a session's time must stop by itself."""
        readers: dict[Partition, str] = {}
        for client in self.clients:
            if self.play.now_ms - self.heard_ms.get(client.member_id, -SESSION_MS) >= SESSION_MS:
                continue
            for partition in client.owned:
                assert partition not in readers, f"{client.member_id} and {readers[partition]} read {partition}"
                readers[partition] = client.member_id

    def check_settled(self) -> None:
        """After the dead have lapsed and the living were heard, everything is read, by one, in one epoch."""
        for _ in range(4):
            self.play.pass_time(SESSION_MS // 2)
            settle(*self.clients, rounds=1)
        for _ in range(12):
            self.play.pass_time(1_000)
            settle(*self.clients, rounds=1)
        group = self.play.group
        assert group.state is AssignedGroupState.STABLE
        assert {client.epoch for client in self.clients} == {group.epoch}
        assert len(group.members) == len(self.clients)
        owned = [partition for client in self.clients for partition in client.owned]
        assert len(owned) == len(set(owned))
        topics = [self.play.catalogue.get(name) for name in NAMES]
        assert set(owned) == {
            (topic.topic_id, index) for topic in topics if topic is not None for index in range(topic.partition_count)
        }
        assert all(topic is None or topic.topic_id == topic_id(topic.name) for topic in topics)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=60), st.sampled_from((0, 1_000)), st.booleans())
def test_one_reader_for_each_partition_and_all_settles(
    steps: list[tuple[object, ...]], interval_ms: int, has_classic: bool
) -> None:
    world = World(interval_ms, has_classic)
    for step in steps:
        world.take(step)
    world.check_settled()
