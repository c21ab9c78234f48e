"""Changes that another node carries out: asked again while that changes, and told in words where nobody does."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.schema_registry import ListedLog
from tests.support.waiting import turning_until

from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, OwnerGone, ProtocolError, Refused
from hutong.foundation.timers import TimerWheel
from hutong.registry.changes import (
    ChangeAnswer,
    DeleteSubject,
    RegisterSchema,
    decode_outcome,
    encode_change,
    encode_outcome,
)
from hutong.registry.forwarding import CHANGE_MS_MAX, PART, ClusterChanges
from hutong.registry.service import RegistryService
from hutong.registry.values import NotRecorded, RegistryCode, SchemaText, UnknownOutcome
from hutong.registry.writer import RegistryWriter
from hutong.runtime.threads.offload import InlineOffload
from hutong.wire.kafka.error_codes import ErrorCode

ASKED = RegisterSchema("s", SchemaText("AVRO", '"int"'))
DELETED = DeleteSubject("s", is_permanent=False)
LOST = OwnerGone("the link has ended")


class OtherNodes:
    """A cluster whose leader answers as the test says; the last answer stays."""

    is_alone = False

    def __init__(self, outcomes: Sequence[bytes | HutongError]) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[int] = []
        self.handle: Callable[..., None] | None = None

    def ask_part(self, node: int, part: str, question: bytes, then: Callable[[Any], None]) -> None:
        assert part == PART
        assert question
        self.asked.append(node)
        then(self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0])

    def serve_part(self, part: str, handle: Callable[..., None] | None) -> None:
        assert part == PART
        self.handle = handle


class FollowedLog(ListedLog):
    """The topic on a node that leads it or not."""

    leader = 2
    is_led_here = False


class Scene:
    def __init__(self, *outcomes: bytes | HutongError) -> None:
        self.clock, self.wheel = ManualClock(), TimerWheel(0)
        self.log, self.cluster = FollowedLog(), OtherNodes(outcomes)
        log: Any = self.log
        cluster: Any = self.cluster
        writer = RegistryWriter(log, RegistryService(log, InlineOffload()))
        self.changes = ClusterChanges(cluster, log, writer, self.clock, self.wheel)
        self.changes.start()

    async def carry_out(self, change: RegisterSchema | DeleteSubject) -> ChangeAnswer:
        task = asyncio.ensure_future(self.changes.carry_out(change))
        while not task.done():
            await asyncio.sleep(0)
            self.clock.advance(50)
            self.wheel.advance(self.clock.monotonic_ms())
        return task.result()


async def test_the_answer_of_the_leader_is_the_answer() -> None:
    scene = Scene(encode_outcome(ChangeAnswer(7, 1)))
    assert await scene.carry_out(ASKED) == ChangeAnswer(7, 1)
    assert scene.cluster.asked == [2]


async def test_a_refusal_of_the_leader_is_final() -> None:
    scene = Scene(encode_outcome(Refused(RegistryCode.INCOMPATIBLE, "no")))
    with pytest.raises(Refused, match="no") as raised:
        await scene.carry_out(ASKED)
    assert (raised.value.code, len(scene.cluster.asked)) == (409, 1)


@pytest.mark.parametrize("first", [encode_outcome(NotRecorded("not here")), encode_outcome(UnknownOutcome("?")), LOST])
async def test_a_registration_is_asked_for_again(first: bytes | HutongError) -> None:
    scene = Scene(first, first, encode_outcome(ChangeAnswer(7, 1)))
    assert await scene.carry_out(ASKED) == ChangeAnswer(7, 1)
    assert len(scene.cluster.asked) == 3


async def test_a_deletion_is_not_where_it_may_be_recorded() -> None:
    scene = Scene(encode_outcome(NotRecorded("not here")), LOST)
    with pytest.raises(UnknownOutcome, match="Node 2"):
        await scene.carry_out(DELETED)
    assert len(scene.cluster.asked) == 2


async def test_without_a_leader_the_time_has_an_end() -> None:
    scene = Scene(LOST)
    scene.log.leader = NO_LEADER
    with pytest.raises(Refused, match="Nobody leads _schemas") as raised:
        await scene.carry_out(ASKED)
    assert raised.value.code == RegistryCode.FORWARDING
    assert scene.clock.monotonic_ms() >= CHANGE_MS_MAX
    assert scene.cluster.asked == []


async def test_a_leader_without_a_registry_is_named() -> None:
    scene = Scene(Refused(ErrorCode.UNSUPPORTED_VERSION, "Node 2 has no schema registry."))
    with pytest.raises(Refused, match=r"Give every node schema_registry\.listen") as raised:
        await scene.carry_out(ASKED)
    assert raised.value.code == RegistryCode.FORWARDING


async def test_a_node_that_leads_by_now_carries_it_out() -> None:
    scene = Scene(encode_outcome(NotRecorded("not here")))
    task = asyncio.ensure_future(scene.carry_out(ASKED))
    await asyncio.sleep(0)
    scene.log.is_led_here = True
    assert await task == ChangeAnswer(1, 1)


async def test_what_others_hand_over_is_carried_out_or_refused() -> None:
    scene = Scene(LOST)
    handle = scene.cluster.handle
    assert handle is not None
    answers: list[Any] = []
    handle(encode_change(ASKED), answers.append)
    handle(encode_change(DELETED), answers.append)
    handle(encode_change(DELETED), answers.append)
    handle(b"nothing", answers.append)
    await turning_until(lambda: len(answers) == 4)
    assert isinstance(answers[0], ProtocolError)
    assert decode_outcome(answers[1]) == ChangeAnswer(1, 1)
    assert decode_outcome(answers[2]) == ChangeAnswer(versions=(1,))
    with pytest.raises(Refused, match="soft deleted"):
        decode_outcome(answers[3])
    scene.changes.close(LOST)
    assert scene.cluster.handle is None
