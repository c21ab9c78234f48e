"""The controller: the node that leads the metadata decides for all groups but that one.

    NodesChanged ─┐
    SetProposed ──┼─▶ decide on the newest state ─▶ StoreDecisions ─▶ on disk everywhere ─▶ Answer
    CommandAsked ─┤                 ▲
    Tick ─────────┘                 └── repairs: sets, leaders, splits, drains, moves, missing replicas, leaders

Strategy: after each event all repairs are run, so none of them needs to know what has happened. A decision takes effect
here at once and becomes a record; a caller is answered when the record is stored. A node that cannot store a
record does not lead the metadata any more: its machine is thrown away, and the next controller begins from the log.

A proposal that names a life of a node which is not known here yet is held for a while: a leader that were refused at
once would propose the same at once. One that names a life which is over, or a replica that has failed or is short of
space, is refused at once: until then the leader waits for acknowledgements of that node.

Knows nothing of logs, connections or clocks.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from hutong.cluster.controller.commands import CommandReply, ElectPreferred
from hutong.cluster.controller.decisions import ClusterDecisions
from hutong.cluster.controller.live_nodes import LiveNodes
from hutong.cluster.controller.lost_disks import lost_replicas, note_disks, note_found
from hutong.cluster.controller.messages import (
    CommandAsked,
    ControllerEvent,
    ControllerInstruction,
    LiveNode,
    NodesChanged,
    ProposalReply,
    ReplicaFailed,
    ReplicaShort,
    SetProposed,
    StoreDecisions,
    Yielded,
)
from hutong.cluster.controller.operations import carry_out, with_progress
from hutong.cluster.controller.preferred import PREFERRED_WAIT_MS, PreferredLeaders, return_leadership, wished_leader
from hutong.cluster.controller.repairs import (
    advance_moves,
    fill_replicas,
    found_missing,
    leave_avoided,
    note_nodes,
    plan_drains,
    repair_sets,
)
from hutong.cluster.controller.splitting import advance_splits
from hutong.cluster.image import ClusterImage
from hutong.cluster.records import FoundingSettings
from hutong.cluster.set_rules import problem_of, with_proposal
from hutong.foundation.machine import Answer, Tick
from hutong.wire.kafka.error_codes import ErrorCode

HOLD_MS_MAX: Final = 1_000  # for a proposal that names a life of a node that is not known here yet
_NOT_READY: Final = CommandReply(ErrorCode.NOT_CONTROLLER, "The controller does not know yet which nodes are alive.")


class ControllerMachine:
    """The decisions of one time as controller. Nothing is decided before the first `NodesChanged`."""

    def __init__(
        self,
        image: ClusterImage,
        settings: FoundingSettings,
        names: Iterable[str],
        *,
        preferred_wait_ms: int = PREFERRED_WAIT_MS,
    ) -> None:
        """`image` is what the metadata says; `names` are the groups that there shall be."""
        self.decisions = ClusterDecisions(image, settings)
        self._names = tuple(names)
        self._live: LiveNodes | None = None
        self._failed: dict[tuple[int, str], int] = {}  # lives of nodes in which a replica failed, by node and group
        self._short: dict[tuple[int, str], int] = {}  # lives of nodes that cannot write a group for now
        self._departed: set[tuple[int, int]] = set()  # lives of nodes that were live, and are not
        self._held: dict[str, list[SetProposed]] = {}  # proposals that are not answered, by group
        self._preferred = PreferredLeaders(preferred_wait_ms, self.decisions.handovers.is_under_way)
        self._electing: list[tuple[int, CommandReply]] = []  # commands with their replies, until leaders have yielded

    def next_tick_ms(self) -> int | None:
        if self._live is None:
            return None
        due_ms = [held[0].now_ms + HOLD_MS_MAX for held in self._held.values()]
        due_ms += [
            at_ms for at_ms in (self._preferred.next_tick_ms(), self.decisions.handovers.next_tick_ms()) if at_ms
        ]
        return min(due_ms, default=None)

    def check_invariants(self) -> None:
        for name, state in self.decisions.groups.items():
            assert state.name == name
            assert problem_of(state) is None, problem_of(state)
        assert all(self._held.values())

    # ---- events

    def handle(self, event: ControllerEvent) -> list[ControllerInstruction]:
        self.decisions.handovers.begin(event.now_ms)
        match event:
            case NodesChanged(live, now_ms):
                self._look(live)
                return self._settle(now_ms)
            case ReplicaFailed(node, incarnation, group, now_ms):
                self._failed[node, group] = incarnation
                if self._live is not None:
                    self._look(self._live.nodes)
                return self._settle(now_ms)
            case ReplicaShort(node, incarnation, group, is_short, now_ms):
                self._note_short(node, incarnation, group, is_short=is_short)
                return self._settle(now_ms)
            case Yielded(group, epoch, now_ms):
                self.decisions.handovers.yielded(group, epoch)
                return self._settle(now_ms)
            case SetProposed(group=group, now_ms=now_ms):
                self._held.setdefault(group, []).append(event)
                return self._settle(now_ms)
            case CommandAsked():
                return self._asked(event)
            case Tick(now_ms):
                return self._settle(now_ms)

    def _note_short(self, node: int, incarnation: int, group: str, *, is_short: bool) -> None:
        if is_short:
            self._short[node, group] = incarnation
        else:
            self._short.pop((node, group), None)
        if self._live is not None:
            self._look(self._live.nodes)

    def _asked(self, event: CommandAsked) -> list[ControllerInstruction]:
        if self._live is None:
            return [Answer(event.ticket, _NOT_READY)]
        reply = carry_out(self.decisions, event.command, self._live)
        if isinstance(event.command, ElectPreferred):
            self._electing.append((event.ticket, reply))
            return self._settle(event.now_ms)
        instructions = self._settle(event.now_ms)
        # The repairs have begun to carry out what is wanted, and the reply tells of that.
        return [*instructions, Answer(event.ticket, with_progress(self.decisions, event.command, reply, self._live))]

    def _settle(self, now_ms: int) -> list[ControllerInstruction]:
        """Repair everything, and return what is to be stored, with the answers that rest on it."""
        if self._live is None:
            return []
        answers = self._answer_proposals(self._live, now_ms)
        # A set that has grown may do without its member that is short of space; one that was lost may have a leader.
        if note_found(self.decisions) or self._short:
            self._look(self._live.nodes)
        self._repair(self._live, now_ms)
        # The repairs may have overtaken proposals that were held on.
        answers += self._answer_proposals(self._live, now_ms)
        answers += self._answer_elections(self._live)
        records, groups = self.decisions.take_records(), self.decisions.groups
        questions = self.decisions.handovers.end({name: state.epoch for name, state in groups.items()})
        return [*([StoreDecisions(records)] if records else []), *answers, *questions]

    def _answer_elections(self, live: LiveNodes) -> list[ControllerInstruction]:
        """Go on with elections that were asked for, and answer those whose leaders have all changed, or cannot."""
        electing, self._electing = self._electing, []
        for ticket, reply in electing:
            for name in reply.groups:
                return_leadership(self.decisions, self.decisions.groups[name], live)
            if any(wished_leader(self.decisions, self.decisions.groups[name], live) for name in reply.groups):
                self._electing.append((ticket, reply))
        return [Answer(*each) for each in electing if each not in self._electing]

    def _look(self, nodes: Mapping[int, LiveNode]) -> None:
        """Take who is not there out of all sets, and who does not live the same life as before."""
        before = {} if self._live is None else self._live.nodes
        restarted = {n for n, each in nodes.items() if n in before and before[n].incarnation != each.incarnation}
        lives, ended = _lives(nodes), _lives(before)
        self._departed = (self._departed | ended) - lives
        note_disks(self.decisions, nodes)
        failed = self._failed | lost_replicas(self.decisions, nodes)
        self._live = LiveNodes(dict(nodes), failed, self._short, self.decisions.groups)
        repair_sets(self.decisions, self._live, restarted)

    def _repair(self, live: LiveNodes, now_ms: int) -> None:
        note_nodes(self.decisions, live)
        found_missing(self.decisions, self._names, live)
        leave_avoided(self.decisions, live)
        advance_splits(self.decisions, live)
        plan_drains(self.decisions, live)
        advance_moves(self.decisions, live)
        self._preferred.hasten(fill_replicas(self.decisions, live))
        self._preferred.settle(self.decisions, live, now_ms)

    # ---- proposals

    def _answer_proposals(self, live: LiveNodes, now_ms: int) -> list[ControllerInstruction]:
        answers: list[ControllerInstruction] = []
        for group in list(self._held):
            kept: list[SetProposed] = []
            for proposal in self._held.pop(group):
                reply = self._reply_to(proposal, live)
                # What is refused must never be taken, so those of one group that say the same are refused together.
                if reply is None and now_ms >= (kept or [proposal])[0].now_ms + HOLD_MS_MAX:
                    reply = ProposalReply(False, self.decisions.groups[group])
                if reply is None:
                    kept.append(proposal)
                else:
                    answers.append(Answer(proposal.ticket, reply))
            if kept:
                self._held[group] = kept
        return answers

    def _reply_to(self, proposal: SetProposed, live: LiveNodes) -> ProposalReply | None:
        """Take or refuse a proposal; None: that cannot be said yet."""
        state = self.decisions.groups.get(proposal.group)
        if state is None:
            return ProposalReply(False, None)
        leader = (proposal.node, proposal.incarnation, proposal.epoch, proposal.version)
        if leader != (state.leader, state.leader_incarnation, state.epoch, state.version):
            return ProposalReply(False, state)
        needed = self.decisions.needed(proposal.group, state.replicas)
        changed = with_proposal(state, proposal.followers, live.of(proposal.group), needed)
        if changed is None:
            new = {each for each in proposal.followers if each[0] not in state.in_sync}
            keys = {(node, proposal.group): life for node, life in new}
            is_unable = any(life in (self._short.get(key), self._failed.get(key)) for key, life in keys.items())
            return ProposalReply(False, state) if is_unable or not self._departed.isdisjoint(new) else None
        self.decisions.put_group(changed)
        return ProposalReply(True, changed)


def _lives(nodes: Mapping[int, LiveNode]) -> set[tuple[int, int]]:
    return {(node, each.incarnation) for node, each in nodes.items()}
