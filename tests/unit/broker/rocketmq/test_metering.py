"""Quotas on RocketMQ's port: who used too much waits, or is refused where its client would not wait so long."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene

from hutong.broker.rocketmq.figures import RocketFigures
from hutong.broker.rocketmq.metering import SEND_WAIT_MS_MAX, WAIT_MS_MAX, Metering
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.rocketmq.signatures import Signatures
from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Pending
from hutong.foundation.waiting.table import Owner
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.principals import ANONYMOUS
from hutong.wire.kafka.apis.k49_alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from hutong.wire.kafka.apis.shared import EntityData
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command


class Meter:
    """Answers with the waits that a test gives it. `noted` has (key, user, client, received, sent)."""

    def __init__(self) -> None:
        self.waits_ms: list[int] = []
        self.noted: list[tuple[int, str, str, int, int]] = []

    def throttle_ms(self, key: int, user: str, client: str, received: int, sent: int, _spent_us: int) -> int:
        self.noted.append((key, user, client, received, sent))
        return self.waits_ms.pop(0) if self.waits_ms else 0


class Session:
    def __init__(self, owner: Owner) -> None:
        self.owner = owner


class Scene:
    def __init__(self) -> None:
        self.clock, self.meter = ManualClock(), Meter()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.figures = RocketFigures(Signatures())
        self.metering = Metering(self.figures)
        self.owner = Owner()
        self.session = Session(self.owner)
        self.handled: list[int] = []

    def ask(self, code: int, answer: Answer = None, body: bytes = b"12345", group: str = "g") -> Answer:
        parts = SimpleNamespace(broker=SimpleNamespace(clock=self.clock, meter=self.meter), timers=self.wheel)
        context: Any = SimpleNamespace(
            command=Command(code, fields={"consumerGroup": group}, body=body),
            channel=SimpleNamespace(owner=self.owner),
            parts=parts,
            principal=ANONYMOUS,
            session=lambda _group: self.session,
        )

        def handle(_context: object) -> Answer:
            self.handled.append(code)
            return Command(0, body=b"123") if answer is None else answer

        return self.metering.process(cast(Any, handle), context)

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


def answers_of(pending: Answer) -> list[ReadyAnswer]:
    assert isinstance(pending, Pending)
    answers: list[ReadyAnswer] = []
    pending.then(answers.append)
    return answers


def test_usage_is_noted_by_kind_user_and_group() -> None:
    scene = Scene()
    scene.ask(RequestCode.SEND_MESSAGE_V2)
    scene.ask(RequestCode.PULL_MESSAGE, group="h")
    scene.ask(RequestCode.HEART_BEAT)
    assert [each[:3] for each in scene.meter.noted] == [
        (0, "ANONYMOUS", "g"),
        (1, "ANONYMOUS", "h"),
        (-1, "ANONYMOUS", "g"),
    ]
    assert scene.meter.noted[0][3:] == (5, 3)


def test_the_next_request_waits_for_what_is_owed() -> None:
    scene = Scene()
    scene.meter.waits_ms = [500]
    assert isinstance(scene.ask(RequestCode.SEND_MESSAGE), Command), "an answer is never held up"
    waiting = answers_of(scene.ask(RequestCode.SEND_MESSAGE))
    scene.pass_ms(400)
    assert (waiting, len(scene.handled)) == ([], 1)
    scene.pass_ms(200)
    assert (len(waiting), len(scene.handled)) == (1, 2)
    assert isinstance(scene.ask(RequestCode.SEND_MESSAGE), Command), "nothing is owed any more"
    assert (scene.figures.throttled_total, scene.figures.throttled_ms_total) == (1, 500)


def test_an_answer_that_comes_later_counts_when_it_is_there() -> None:
    scene = Scene()
    held: Pending[ReadyAnswer] = Pending()
    answers = answers_of(scene.ask(RequestCode.PULL_MESSAGE, held))
    assert scene.meter.noted == []
    held.complete(Command(0, body=b"1234567"))
    assert len(answers) == 1
    assert scene.meter.noted == [(1, "ANONYMOUS", "g", 5, 7)]


@pytest.mark.parametrize(
    ("code", "longest_ms"), [(RequestCode.SEND_MESSAGE, SEND_WAIT_MS_MAX), (RequestCode.PULL_MESSAGE, WAIT_MS_MAX)]
)
def test_a_request_that_would_wait_longer_than_its_client_is_refused(code: int, longest_ms: int) -> None:
    scene = Scene()
    scene.meter.waits_ms = [longest_ms + 1]
    scene.ask(code)
    with pytest.raises(RocketRefused, match=r"^\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control") as caught:
        scene.ask(code)
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    scene.pass_ms(1)
    waiting = answers_of(scene.ask(code))
    scene.pass_ms(longest_ms + 10)
    assert len(waiting) == 1


def test_a_client_that_has_gone_is_not_served() -> None:
    scene = Scene()
    scene.meter.waits_ms = [100]
    scene.ask(RequestCode.SEND_MESSAGE)
    waiting = answers_of(scene.ask(RequestCode.SEND_MESSAGE))
    scene.owner.end()
    scene.metering.forget(cast(Any, scene.session))
    scene.pass_ms(200)
    assert (waiting, len(scene.handled)) == ([None], 1)


async def test_a_group_over_its_quota_is_refused_and_others_are_not(scene: RocketScene, client: RocketClient) -> None:
    entity = [EntityData("client-id", "p")]
    changed = await scene.kafka.ask(
        AlterClientQuotasRequest([EntryData(entity, [OpData("producer_byte_rate", 100.0)])], False), 1
    )
    assert changed.entries[0].error_code == 0
    assert (await client.send(b"x" * 100_000)).code == ResponseCode.SUCCESS
    refused = await client.send(b"x")
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert "quota of its user or group" in (refused.remark or "")
    assert (await client.send(b"x", producerGroup="q")).code == ResponseCode.SUCCESS


async def test_messages_that_come_together_count_one_by_one(scene: RocketScene, client: RocketClient) -> None:
    await scene.kafka.create("t")
    entity = [EntityData("client-id", "p")]
    await scene.kafka.ask(
        AlterClientQuotasRequest([EntryData(entity, [OpData("producer_byte_rate", 100.0)])], False), 1
    )
    assert (await client.send(b"x", producerGroup="q")).code == ResponseCode.SUCCESS
    answers = await asyncio.gather(*[client.send(b"x" * 10_000) for _ in range(4)])
    # The first takes the quota of more than ten seconds; none of the others would wait so long.
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] + 3 * [ResponseCode.SYSTEM_BUSY]
    assert (await client.send(b"x", producerGroup="q")).code == ResponseCode.SUCCESS
