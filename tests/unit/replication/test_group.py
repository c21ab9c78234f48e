"""Three replicas of a partition group: nothing acknowledged is ever lost, and in the end all have the same bytes.

Some rules that make it so are also left out, to show that the histories miss them. The least number of members matters
where a disk is lost, which happens to none here.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.unit.replication.group import LOG, Group

from hutong.foundation.errors import HutongError
from hutong.replication.following.machine import FollowerReplication
from hutong.replication.leading.follower_standing import FollowerStanding
from hutong.replication.leading.machine import LeaderReplication

HISTORIES = 60
SEEDS_MAX = 400
STEPS = 1_000
Patch = Callable[[pytest.MonkeyPatch], None]


def problems_of(seed: int) -> Iterator[str]:
    """Play one history. Raises AssertionError and HutongError where replicas cannot go on."""
    # With a least number of 1 sets change more often: a member that is gone leaves at once.
    group = Group(seed, min_in_sync=1 + seed % 2)
    for _ in range(STEPS):
        group.step()
    group.heal()
    contents = [node.stage.read_all(LOG) for node in group.nodes.values()]
    if any(content != contents[0] for content in contents):
        yield "the replicas differ"
    values = [value for _, value in contents[0]]
    if len(set(values)) < len(values):
        yield "a record is there twice"
    if not set(group.acknowledged()) <= set(values):
        yield "an acknowledged record is lost"


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_acknowledged_is_lost_whatever_happens(seed: int) -> None:
    assert [*problems_of(seed)] == []


def counts_members_that_are_known_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderReplication, "maximal_set", property(lambda self: self._replicas.in_sync))


def takes_members_before_they_have_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderReplication, "_has_what_was_promised", lambda *_: True)


def counts_what_is_held_in_memory(patch: pytest.MonkeyPatch) -> None:
    acknowledge = FollowerStanding.acknowledge

    def credulous(self: FollowerStanding, held: int, _stored: int, end: int, now_ms: int) -> None:
        acknowledge(self, held, held, end, now_ms)

    patch.setattr(FollowerStanding, "acknowledge", credulous)


def counts_what_a_follower_had_before_it_came_back(patch: pytest.MonkeyPatch) -> None:
    follow = FollowerStanding.follow

    def trusting(self: FollowerStanding, *where: int) -> None:
        stored_position = self.stored_position
        follow(self, *where)
        self.stored_position = self.held_position = self.next_position = max(stored_position, self.next_position)

    patch.setattr(FollowerStanding, "follow", trusting)


def cuts_nothing(patch: pytest.MonkeyPatch) -> None:
    def accepted(self: FollowerReplication, _epoch: int, _end: int) -> list[object]:
        self._is_joined = True
        return []

    patch.setattr(FollowerReplication, "_diverged", accepted)


@pytest.mark.parametrize(
    "leave_out",
    [
        counts_members_that_are_known_alone,
        takes_members_before_they_have_everything,
        counts_what_is_held_in_memory,
        counts_what_a_follower_had_before_it_came_back,
        cuts_nothing,
    ],
)
def test_a_rule_that_is_left_out_is_missed(leave_out: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            if [*problems_of(seed)]:
                return
        except (AssertionError, HutongError):
            return
    pytest.fail(f"{SEEDS_MAX} histories do not miss it")
