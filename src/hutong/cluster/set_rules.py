"""The rules of in-sync sets: how the state of one partition group may become its next one.

    members are gone       they leave the set at once; while it is too small they stay electable
    a member lost its disk it leaves the set, and is not electable
    all members are gone   the set stays as it is, without a leader: each of them has all that is committed
    election               the first live member, else the first live one that is electable; then the set is it alone
    proposal               by the present leader; who is new in the set is registered under that very incarnation

Strategy: pure functions from a state to the next. Each raises the version, and each election the epoch. Members have on
disk all that is committed, also after a crash, for nothing is committed before. `eligible` are those who left while the
set was too small to commit anything (KIP-966), so they have it too until the set has grown. The least number of members
rises with the set when replicas are added: a group that begins with one replica takes records from the start.

Knows nothing of who stores states, nor of clocks.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from hutong.replication.group_state import NO_LEADER, PartitionGroupState

FIRST_EPOCH: Final = 1
FIRST_VERSION: Final = 1


def needed_in_sync(replica_count: int, configured: int = 0) -> int:
    """The least size of a set that commits: `configured`, but not more than there are replicas; 0: the majority."""
    return min(configured, replica_count) if configured else replica_count // 2 + 1


def founded(name: str, replicas: tuple[int, ...], incarnation: int, configured: int = 0) -> PartitionGroupState:
    """A group that has stored nothing yet: all of its replicas are in sync, and the first leads."""
    return PartitionGroupState(
        name,
        FIRST_EPOCH,
        FIRST_VERSION,
        replicas[0],
        incarnation,
        replicas,
        frozenset(replicas),
        frozenset(),
        needed_in_sync(len(replicas), configured),
    )


def problem_of(state: PartitionGroupState) -> str | None:
    """Name what no group can be, or return None."""
    replicas = frozenset(state.replicas)
    problems = {
        "no name": not state.name,
        "no epoch or version": state.epoch < FIRST_EPOCH or state.version < FIRST_VERSION,
        "no replicas": not replicas or min(replicas) < 0,
        "a replica twice": len(replicas) != len(state.replicas),
        "nobody in sync": not state.in_sync,
        "somebody in sync who is no replica": not state.in_sync <= replicas,
        "somebody eligible who is no replica": not state.eligible <= replicas,
        "a member who is eligible": bool(state.eligible & state.in_sync),
        "eligible nodes of a set that commits": bool(state.eligible) and len(state.in_sync) >= state.min_in_sync,
        "a bound that cannot be met": not 1 <= state.min_in_sync <= len(replicas),
        "a leader who is not in sync": state.leader != NO_LEADER and state.leader not in state.in_sync,
    }
    return next((problem for problem, is_so in problems.items() if is_so), None)


def is_led(state: PartitionGroupState, live: Mapping[int, int]) -> bool:
    """Return True if the life of the node that leads goes on. `live` has incarnations, by node."""
    return state.leader != NO_LEADER and live.get(state.leader) == state.leader_incarnation


def without_nodes(state: PartitionGroupState, gone: Collection[int]) -> PartitionGroupState:
    """Take members out of the set, unless all of them are gone. A leader that is gone leads no more.

    Returns `state` itself where nothing changes.
    """
    staying = state.in_sync.difference(gone)
    leader_stays = state.leader != NO_LEADER and state.leader not in gone
    # With nobody left there is nobody to go on without the others, and any of them may lead again.
    if not staying:
        return state if state.leader == NO_LEADER else _next(replace(state, leader=NO_LEADER, leader_incarnation=0))
    if staying == state.in_sync and (leader_stays or state.leader == NO_LEADER):
        return state
    changed = state if leader_stays else replace(state, leader=NO_LEADER, leader_incarnation=0)
    return _next(_with_members(changed, staying))


def without_copy(state: PartitionGroupState, node: int) -> PartitionGroupState:
    """Take out a node that has nothing of the group: of the set, unless it is alone there, and of who may lead.

    Returns `state` itself where nothing changes.
    """
    left = without_nodes(state, {node})
    return _next(replace(left, eligible=left.eligible - {node})) if node in left.eligible else left


def candidates(state: PartitionGroupState, live: Collection[int], avoided: Collection[int] = ()) -> list[int]:
    """The live nodes that may lead, best first: members before others, in order of preference, `avoided` last."""
    members = [node for node in state.replicas if node in state.in_sync and node in live]
    others = [node for node in state.replicas if node in state.eligible and node in live]
    return [*sorted(members, key=lambda node: node in avoided), *sorted(others, key=lambda node: node in avoided)]


def elected(state: PartitionGroupState, node: int, incarnation: int, live: Collection[int]) -> PartitionGroupState:
    """Let a node lead in a new epoch. Members that are not live leave; an eligible node begins a set of its own."""
    assert node in state.in_sync or node in state.eligible, "it may lack what is committed"
    is_member = node in state.in_sync
    members = state.in_sync.intersection(live) | {node} if is_member else frozenset({node})
    led = replace(state, epoch=state.epoch + 1, leader=node, leader_incarnation=incarnation)
    return _next(_with_members(led, members))


def elected_uncleanly(state: PartitionGroupState, node: int, incarnation: int) -> PartitionGroupState:
    """Let any replica lead: what it lacks is lost. What others have more than it is lost too, so none is eligible."""
    assert node in state.replicas
    led = replace(state, epoch=state.epoch + 1, leader=node, leader_incarnation=incarnation)
    return _next(replace(led, in_sync=frozenset({node}), eligible=frozenset()))


def with_proposal(
    state: PartitionGroupState, followers: Iterable[tuple[int, int]], live: Mapping[int, int], needed: int
) -> PartitionGroupState | None:
    """The set that its leader proposed, or None while somebody new in it is not registered so (KIP-903, KIP-841).

    `needed` is the least size of a set that commits, once as many have been in it.
    """
    wanted = dict(followers)
    for node, incarnation in wanted.items():
        # A member stays one: its leader may not have heard yet which life of it that is.
        if node not in state.in_sync and live.get(node) != incarnation:
            return None
        if node not in state.replicas:
            return None
    members = frozenset({state.leader, *wanted})
    return _next(_with_needed(_with_members(state, members), needed))


def with_replicas(state: PartitionGroupState, replicas: tuple[int, ...], needed: int) -> PartitionGroupState:
    """Give the group other replicas. Members among those that go leave the set; the leader stays, and one member."""
    kept = frozenset(replicas)
    assert state.leader == NO_LEADER or state.leader in kept
    assert state.in_sync & kept
    # Who is no replica any more is not eligible either, so the order of these steps matters.
    changed = _with_members(state, state.in_sync & kept)
    changed = replace(changed, replicas=replicas, eligible=changed.eligible & kept)
    return _next(_with_needed(changed, needed))


def _with_members(state: PartitionGroupState, members: frozenset[int]) -> PartitionGroupState:
    """Change the set. Nothing is committed while it is too small, so who leaves it then has all that is committed."""
    if len(members) >= state.min_in_sync:
        return replace(state, in_sync=members, eligible=frozenset())
    return replace(state, in_sync=members, eligible=(state.eligible | state.in_sync) - members)


def _with_needed(state: PartitionGroupState, needed: int) -> PartitionGroupState:
    """Lower the least size at once, or raise it as far as the set has grown."""
    needed = min(needed, max(state.min_in_sync, len(state.in_sync)), len(state.replicas))
    eligible = state.eligible if len(state.in_sync) < needed else frozenset()
    return replace(state, min_in_sync=needed, eligible=eligible)


def _next(state: PartitionGroupState) -> PartitionGroupState:
    return replace(state, version=state.version + 1)
