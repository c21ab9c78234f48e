"""Rules that keep the replicas of a cluster safe, each with a way to leave it out (the plan of in-sync sets).

Strategy: the patches go to the machines and the rules of sets, so that every node of a simulation lacks the rule.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from tests.fault.ablation_search import Patch

from hutong.cluster import set_rules
from hutong.cluster.controller.live_nodes import LiveNodes
from hutong.cluster.controller.machine import ControllerMachine
from hutong.cluster.controller.messages import ProposalReply, SetProposed
from hutong.cluster.lease import FOR_EVER_MS, LeaderLease
from hutong.cluster.liveness import Liveness
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.share.delivery.progress import KeptProgress, ProgressWrite
from hutong.journal.append import producers
from hutong.replication.driver import GroupReplica
from hutong.replication.following.driver import FollowingReplica
from hutong.replication.following.machine import FollowerReplication
from hutong.replication.group_state import PartitionGroupState
from hutong.replication.leading import driver as leading_driver
from hutong.replication.leading.follower_standing import FollowerStanding
from hutong.replication.leading.machine import LeaderReplication
from hutong.replication.replica_messages import ReplicaMessage


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


def commits_what_an_earlier_leader_wrote_at_once(patch: pytest.MonkeyPatch) -> None:
    begin = LeaderReplication.__init__

    def hasty(self: LeaderReplication, *arguments: Any) -> None:
        begin(self, *arguments)
        self._own_position = -1

    patch.setattr(LeaderReplication, "__init__", hasty)


def takes_messages_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """Also of a former leader, which alone would still send any."""
    told, heard = GroupReplica.told, FollowingReplica.told

    def careless(self: GroupReplica, node: int, message: ReplicaMessage) -> None:
        told(self, node, msgspec.structs.replace(message, epoch=max(message.epoch, self._known_epoch)))

    def credulous(self: FollowingReplica, _node: int, message: ReplicaMessage) -> None:
        heard(self, self._leader, message)

    patch.setattr(GroupReplica, "told", careless)
    patch.setattr(FollowingReplica, "told", credulous)


def commits_in_a_set_that_is_too_small(patch: pytest.MonkeyPatch) -> None:
    set_of = leading_driver._set_of
    patch.setattr(leading_driver, "_set_of", lambda state: replace(set_of(state), min_in_sync=1))


def lets_any_replica_lead(patch: pytest.MonkeyPatch) -> None:
    elected = set_rules.elected

    def any_live(state: PartitionGroupState, live: Iterable[int], avoided: Iterable[int] = ()) -> list[int]:
        return [node for node in reversed(state.replicas) if node in live]

    def elect(state: PartitionGroupState, node: int, incarnation: int, live: Iterable[int]) -> PartitionGroupState:
        known = state if node in state.in_sync else replace(state, in_sync=state.in_sync | {node})
        return elected(known, node, incarnation, [*live])

    _replace_everywhere(patch, "candidates", any_live)
    _replace_everywhere(patch, "elected", elect)


def takes_sets_of_any_version(patch: pytest.MonkeyPatch) -> None:
    reply_to = ControllerMachine._reply_to

    def careless(self: ControllerMachine, proposal: SetProposed, live: LiveNodes) -> ProposalReply | None:
        state = self.decisions.groups.get(proposal.group)
        if state is not None:
            proposal = replace(
                proposal,
                node=state.leader,
                incarnation=state.leader_incarnation,
                epoch=state.epoch,
                version=state.version,
            )
        return reply_to(self, proposal, live)

    patch.setattr(ControllerMachine, "_reply_to", careless)


def serves_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderLease, "served_until_ms", lambda *_: FOR_EVER_MS)


def takes_members_of_any_incarnation(patch: pytest.MonkeyPatch) -> None:
    with_proposal = set_rules.with_proposal

    def trusting(
        state: PartitionGroupState, followers: Iterable[tuple[int, int]], live: Mapping[int, int], needed: int
    ) -> PartitionGroupState | None:
        wanted = [*followers]
        return with_proposal(state, wanted, {**live, **dict(wanted)}, needed)

    _replace_everywhere(patch, "with_proposal", trusting)


def takes_share_progress_of_any_version(patch: pytest.MonkeyPatch) -> None:
    def careless(self: KeptProgress, write: ProgressWrite, then: Continuation[None]) -> None:
        self._append({write.key: write.value}, then)

    patch.setattr(KeptProgress, "write", careless)


def leaves_the_metadata_with_a_node_out_of_reach(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Liveness, "out_of_reach", lambda *_: frozenset())


def forgets_what_is_older_than_five_batches(patch: pytest.MonkeyPatch) -> None:
    repetition_of = producers.repetition_of

    def forgetful(*batch: Any) -> int | None:
        offset = repetition_of(*batch)
        return None if offset == producers.UNKNOWN_OFFSET else offset

    patch.setattr(producers, "repetition_of", forgetful)


def _replace_everywhere(patch: pytest.MonkeyPatch, name: str, function: Callable[..., object]) -> None:
    """Replace a rule of sets also where it was imported by its name."""
    original = getattr(set_rules, name)
    for module in [*sys.modules.values()]:
        if getattr(module, "__name__", "").startswith("hutong.cluster") and getattr(module, name, None) is original:
            patch.setattr(module, name, function)


class ClusterRule(NamedTuple):
    """A rule, the patch that leaves it out, the fault that plans need (None: any) to notice soon, and their length."""

    sentence: str
    leave_out: Patch
    aimed_fault: str | None
    minutes: float = 0.1  # short: a virtual second of three nodes costs more than one of a single node


RULES: Final = (
    ClusterRule("a set is changed only from its present version", takes_sets_of_any_version, "late_set"),
    ClusterRule("a leader that hears of nobody serves no reads", serves_for_ever, "deaf_leader"),
    ClusterRule("a change of the set that is under way counts", counts_members_that_are_known_alone, "cut_joined"),
    ClusterRule(
        "a new member has all that was promised without it", takes_members_before_they_have_everything, "lose_joined"
    ),
    ClusterRule("a member counts with what it has on disk", counts_what_is_held_in_memory, "power_leader_last"),
    ClusterRule(
        "a follower that comes back begins with what it says",
        counts_what_a_follower_had_before_it_came_back,
        "lose_disk",
    ),
    ClusterRule("a follower cuts what its leader does not have", cuts_nothing, "lose_leader"),
    ClusterRule(
        "a leader commits older chunks with one of its own", commits_what_an_earlier_leader_wrote_at_once, "lose_joined"
    ),
    ClusterRule("messages of an older leader change nothing", takes_messages_of_any_epoch, "late_cut"),
    ClusterRule("a set that is too small commits nothing", commits_in_a_set_that_is_too_small, "lose_alone"),
    ClusterRule("a leader is a member of the set", lets_any_replica_lead, "lose_leader"),
    ClusterRule("a new member is registered in this life", takes_members_of_any_incarnation, "late_proposal"),
    ClusterRule("a write of share progress follows the one before", takes_share_progress_of_any_version, "late_leader"),
    ClusterRule(
        "a controller that reaches no majority hands over",
        leaves_the_metadata_with_a_node_out_of_reach,
        "lone_controller",
        minutes=0.2,  # the fault lasts 8.5 s
    ),
    ClusterRule("a repetition is known also behind five batches", forgets_what_is_older_than_five_batches, None),
)
