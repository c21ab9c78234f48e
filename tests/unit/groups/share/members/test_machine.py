"""The members of a share group, as transcripts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.foundation.machine import Tick
from hutong.groups.share.assignor import assign
from hutong.groups.share.members.machine import ShareGroup
from hutong.groups.share.members.messages import (
    Gone,
    Instruction,
    LeaveShareGroup,
    PersistEpoch,
    SharedTopicsChanged,
    ShareHeartbeat,
    ShareReply,
    TopicShape,
)
from hutong.wire.kafka.error_codes import ErrorCode


def id_of(name: str, made: int = 1) -> bytes:
    return f"{name}{made}".encode()


class Scene:
    def __init__(self, members_max: int = 3) -> None:
        self.counts = {"a": 2, "b": 1}
        self.made = {"a": 1, "b": 1, "new": 1}  # how often a topic of that name was made
        self.group = ShareGroup(
            "g",
            0,
            members_max=members_max,
            session_timeout_ms=lambda: 100,
            find_topic=self.find,
        )

    def find(self, name: str) -> TopicShape | None:
        count = self.counts.get(name)
        return TopicShape(id_of(name, self.made[name]), count) if count else None

    def beat(
        self, member_id: str, epoch: int, *topics: str, now_ms: int = 0, rack_id: str | None = None
    ) -> list[Instruction]:
        told = self.group.handle(
            ShareHeartbeat(member_id, epoch, now_ms, "app", "/host", list(topics) if topics else None, rack_id)
        )
        self.group.check_invariants()
        return told


def told(epoch: int, *partitions: tuple[str, int]) -> ShareReply:
    return ShareReply(ErrorCode.NONE, None, epoch, frozenset((id_of(name), index) for name, index in partitions))


def test_a_member_joins_stays_and_leaves() -> None:
    scene = Scene()
    assert scene.beat("ann", 0, "a") == [PersistEpoch(1), told(1, ("a", 0), ("a", 1))]
    assert scene.beat("ann", 1) == [ShareReply(ErrorCode.NONE, None, 1)]
    assert scene.group.handle(LeaveShareGroup("ann")) == [
        PersistEpoch(2),
        ShareReply(ErrorCode.NONE, None, -1),
    ]
    assert scene.beat("ann", 1)[0] == ShareReply(ErrorCode.UNKNOWN_MEMBER_ID, "Member ann is not a member of group g.")


def test_members_share_the_load_and_learn_of_it_with_their_next_heartbeat() -> None:
    scene = Scene()
    scene.beat("ann", 0, "a")
    assert scene.beat("bob", 0, "a") == [PersistEpoch(2), told(2, ("a", 1))]
    assert scene.beat("ann", 1) == [told(2, ("a", 0))]
    assert scene.beat("eve", 0, "a") == [PersistEpoch(3), told(3, ("a", 0))]
    assert scene.beat("bob", 2) == [ShareReply(ErrorCode.NONE, None, 3)]


def test_an_answer_that_was_lost_is_given_again() -> None:
    scene = Scene()
    scene.beat("ann", 0, "a")
    scene.beat("bob", 0, "a")
    assert scene.beat("ann", 1) == [told(2, ("a", 0))]
    assert scene.beat("ann", 1) == [ShareReply(ErrorCode.NONE, None, 2)]
    assert scene.beat("ann", 2) == [ShareReply(ErrorCode.NONE, None, 2)]
    for epoch in (1_000, -1):
        (refused,) = scene.beat("bob", epoch)
        assert isinstance(refused, ShareReply)
        assert refused.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_who_is_silent_is_left_out() -> None:
    scene = Scene()
    scene.beat("ann", 0, "a")
    scene.beat("bob", 0, "a", now_ms=50)
    assert scene.group.next_tick_ms() == 100
    assert scene.group.handle(Tick(99)) == []
    assert scene.group.handle(Tick(100)) == [Gone("ann"), PersistEpoch(3)]
    assert scene.beat("bob", 2, now_ms=120) == [told(3, ("a", 0), ("a", 1))]


def test_subscriptions_and_topics_change() -> None:
    scene = Scene()
    scene.beat("ann", 0, "a", "new")
    scene.counts["new"] = 1
    assert scene.group.handle(SharedTopicsChanged()) == [PersistEpoch(2)]
    assert scene.group.handle(SharedTopicsChanged()) == []
    assert scene.beat("ann", 1) == [told(2, ("a", 0), ("a", 1), ("new", 0))]
    assert scene.beat("ann", 2, "b", rack_id="r") == [PersistEpoch(3), told(3, ("b", 0))]
    assert scene.beat("ann", 3, "b") == [told(3, ("b", 0))]  # a full heartbeat has a full answer
    assert scene.group.subscribes_to("b")
    assert not scene.group.subscribes_to("a")


def test_a_topic_that_was_made_again_is_handed_out_anew() -> None:
    scene = Scene()
    scene.beat("ann", 0, "a")
    assert scene.beat("ann", 1) == [ShareReply(ErrorCode.NONE, None, 1)]
    count = scene.counts.pop("a")
    assert scene.group.handle(SharedTopicsChanged()) == [PersistEpoch(2)]
    scene.counts["a"], scene.made["a"] = count, 2
    assert scene.group.handle(SharedTopicsChanged()) == [PersistEpoch(3)]
    anew = frozenset((id_of("a", 2), index) for index in range(count))
    assert scene.beat("ann", 1) == [ShareReply(ErrorCode.NONE, None, 3, anew)]
    scene.made["a"] = 3  # and where both changes are heard of as one
    assert scene.group.handle(SharedTopicsChanged()) == [PersistEpoch(4)]
    assert scene.beat("ann", 3) == [
        ShareReply(ErrorCode.NONE, None, 4, frozenset((id_of("a", 3), index) for index in range(count)))
    ]


def test_a_group_takes_so_many_members() -> None:
    scene = Scene(members_max=1)
    scene.beat("ann", 0, "a")
    (refused,) = scene.beat("bob", 0, "a")
    assert isinstance(refused, ShareReply)
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.beat("ann", 0, "a") == [told(1, ("a", 0), ("a", 1))]


TOPIC_IDS = st.sampled_from((b"a", b"b", b"c"))
MEMBERS = st.dictionaries(st.sampled_from("pqrstuvw"), st.sets(TOPIC_IDS, min_size=1), min_size=1)


@settings(deadline=None)
@given(MEMBERS, st.dictionaries(TOPIC_IDS, st.integers(1, 7)), MEMBERS)
def test_all_is_covered_evenly_and_little_moves(
    before: dict[str, set[bytes]], counts: dict[bytes, int], after: dict[str, set[bytes]]
) -> None:
    first = assign(before, counts, {})
    again = assign(before, counts, first)
    assert again == first
    shares = assign(after, counts, first)
    for topic, count in counts.items():
        subscribers = [member for member, topics in after.items() if topic in topics]
        covered = {partition for member in after for partition in shares[member] if partition[0] == topic}
        assert covered == ({(topic, index) for index in range(count)} if subscribers else set())
    for member, topics in after.items():
        assert all(topic in topics for topic, _ in shares[member])
        alike = [other for other, wanted in after.items() if wanted == topics]
        if len(alike) == len(after):
            assert len({len(shares[other]) for other in alike}) == 1


class CountedId(bytes):
    """A topic's id that counts how often it was compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return bytes.__eq__(self, other)

    def __lt__(self, other: bytes) -> bool:
        CountedId.compared += 1
        return bytes.__lt__(self, other)

    __hash__ = bytes.__hash__


def test_assigning_costs_what_members_and_partitions_are_together() -> None:
    counts: dict[bytes, int] = {CountedId(number.to_bytes(4, "big")): 1 for number in range(2_000)}
    members = {f"m{number}": set(counts) for number in range(50)}
    CountedId.compared = 0
    first = assign(members, counts, {})
    del members["m0"]
    assign(members, counts, first)
    assert sum(map(len, first.values())) == 2_000
    assert CountedId.compared < 500_000  # a few sorts of all partitions, not one for each member
