"""The part of the cluster's status that only replicas know: how much each one lacks, and what it has copied so far.

Strategy: the controller knows sets and plans. The node that an operator asks completes its answer with the group
`metadata`, which the coordinator's register has, and with what all live nodes say within `ANSWER_MS_MAX`. A leader
knows how much its followers have stored, a follower how much of whole files it has copied. Who does not answer is left
out.

Decides nothing.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import structs

from hutong.cluster.controller.commands import CommandReply, ControllerStatus, GroupProgress
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.metadata_machine import METADATA_NAME
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.questions import QuestionCode
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.journal import Journal

ANSWER_MS_MAX: Final = 500


class NodeProgress(msgspec.Struct, frozen=True):
    """`ends`, `held` and `lags` of the groups that a node leads, in bytes; lags by follower.

    `copied` of those it follows.
    """

    ends: dict[str, int] = {}
    held: dict[str, int] = {}
    lags: dict[str, dict[int, int]] = {}
    copied: dict[str, int] = {}


class StatusProgress:
    """Completes answers of the controller, and answers the other nodes' questions."""

    def __init__(self, driver: ClusterDriver) -> None:
        self._driver = driver

    def register(self) -> None:
        assert self._driver.peers is not None
        self._driver.peers.register(QuestionCode.PROGRESS_ASKED, self._asked)

    def complete(self, reply: CommandReply, then: Continuation[CommandReply]) -> None:
        """Hand `then` the answer with what the live nodes say of it; at once where there is no other node."""
        status = reply.status
        assert status is not None
        self._ask_all(lambda found: then(structs.replace(reply, status=self._completed(status, found))))

    def show_held_bytes(self, then: Callable[[dict[str, int]], None]) -> None:
        """Hand `then` the bytes that groups hold, as far as their leaders answer."""

        def answered(found: Mapping[int, NodeProgress]) -> None:
            then({name: held for each in found.values() for name, held in each.held.items()})

        self._ask_all(answered)

    def _ask_all(self, then: Callable[[Mapping[int, NodeProgress]], None]) -> None:
        """Hand `then` what all live nodes say; at once where there is no other node."""
        driver, peers = self._driver, self._driver.peers
        found = {driver.own.node: self._own()}
        others = [node for node in driver.live if node != driver.own.node]
        missing = set(others)

        def heard(node: int, outcome: PeerMessage | HutongError) -> None:
            missing.discard(node)
            if not isinstance(outcome, HutongError):
                found[node] = msgspec.json.decode(bytes(outcome.body), type=NodeProgress)
            if not missing:
                then(found)

        if not others:
            then(found)
        assert peers is not None
        for node in others:
            peers.ask(node, PeerMessage(QuestionCode.PROGRESS_ASKED, {}), ANSWER_MS_MAX, partial(heard, node))

    def _asked(self, _node: int, _message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        then(PeerMessage(0, {}, msgspec.json.encode(self._own())))

    def _own(self) -> NodeProgress:
        replicas = self._driver.replicas
        led = {name: each for name, each in replicas.items() if each.is_leading}
        copied = {name: each.copied_bytes for name, each in replicas.items() if each.copied_bytes}
        return NodeProgress(
            {name: each.journal.position for name, each in led.items()},
            {name: _held_bytes(each.journal) for name, each in led.items()},
            {name: dict(each.follower_lags()) for name, each in led.items()},
            copied,
        )

    def _completed(self, status: ControllerStatus, found: Mapping[int, NodeProgress]) -> ControllerStatus:
        groups = [*status.groups, *self._metadata()]
        return structs.replace(status, groups=tuple(_with_progress(each, found) for each in groups))

    def _metadata(self) -> list[GroupProgress]:
        state = self._driver.groups.get(METADATA_NAME)
        if state is None:
            return []
        in_sync, eligible = tuple(sorted(state.in_sync)), tuple(sorted(state.eligible))
        numbers = (state.epoch, state.version, state.leader)
        return [GroupProgress(state.name, *numbers, state.replicas, in_sync, eligible, state.min_in_sync)]


def _with_progress(group: GroupProgress, found: Mapping[int, NodeProgress]) -> GroupProgress:
    leader = found.get(group.leader, NodeProgress())
    copied = {node: each.copied[group.name] for node, each in found.items() if group.name in each.copied}
    end, known = leader.ends.get(group.name), leader.lags.get(group.name, {})
    if end is None:
        return structs.replace(group, copied=copied)
    # A follower that this leader has not heard of has stored nothing, as far as it knows.
    lags = {node: known.get(node, end) for node in group.replicas if node != group.leader}
    held = leader.held.get(group.name)
    return structs.replace(group, stream_bytes=end, held_bytes=held, lags=lags, copied=copied)


def _held_bytes(journal: Journal) -> int:
    """The bytes of the records that a journal holds still."""
    return sum(journal.log(log_id).held_bytes for log_id in journal.log_ids())
