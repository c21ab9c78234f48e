"""Commands that other nodes hand over: each is answered once, and no more wait than are allowed."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.handling.session import ClientSession
from hutong.broker.rocketmq.cluster import distant_clients
from hutong.broker.rocketmq.cluster.distant_clients import DistantChannel, DistantCommands
from hutong.broker.rocketmq.cluster.elsewhere import hand_over
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.broker.topics.led_topics import LedElsewhere
from hutong.foundation.errors import LimitExceeded, Refused
from hutong.foundation.waiting.pending import Continuation, Pending
from hutong.foundation.waiting.table import Owner
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.principals import Principal
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command, decode, encode, encode_binary

LISTENER = Listener("rocketmq", SecurityProtocol.PLAINTEXT, "h", 1)
FRAME = encode_binary(11, 7, 0)[4:]


def session() -> ClientSession:
    made = ClientSession(-1, "10.0.0.9", 4_000, LISTENER, Owner(), lambda: None)
    made.principal = Principal("User", "alice")
    return made


def test_an_answer_has_the_number_of_its_command() -> None:
    seen: list[DistantChannel] = []

    def process(_command: Command, channel: DistantChannel) -> Answer:
        seen.append(channel)
        return Command(0, body=b"found")

    outcomes: list[Any] = []
    DistantCommands(process).handle(FRAME, session(), outcomes.append)
    answer = decode(outcomes[0][4:])
    assert (answer.opaque, bytes(answer.body), answer.is_response) == (7, b"found", True)
    (channel,) = seen
    assert (channel.peer.address, channel.peer.port, str(channel.principal)) == ("10.0.0.9", 4_000, "User:alice")


def test_what_is_no_command_is_refused() -> None:
    outcomes: list[Any] = []
    DistantCommands(lambda _command, _channel: None).handle(b"\xff" * 30, session(), outcomes.append)
    assert isinstance(outcomes[0], Refused)


def test_a_command_without_an_answer_is_refused() -> None:
    outcomes: list[Any] = []
    DistantCommands(lambda _command, _channel: None).handle(FRAME, session(), outcomes.append)
    assert isinstance(outcomes[0], Refused)


def test_too_many_commands_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distant_clients, "UNANSWERED_MAX", 2)
    waiting: list[Pending[ReadyAnswer]] = []

    def process(_command: Command, _channel: DistantChannel) -> Answer:
        waiting.append(Pending())
        return waiting[-1]

    commands, outcomes = DistantCommands(process), list[Any]()
    for _ in range(3):
        commands.handle(FRAME, session(), outcomes.append)
    assert [type(each) for each in outcomes] == [LimitExceeded]
    waiting[0].complete(Command(0))
    commands.handle(FRAME, session(), outcomes.append)
    assert len(waiting) == 3


class ClusterOfOneQueue:
    """A cluster that hands over at once, and asks again as long as it may."""

    def __init__(self, leaders: list[int]) -> None:
        self.leaders = leaders
        self.asked: list[int] = []

    def leader(self) -> int:
        return self.leaders.pop(0)

    def hand_over(self, node: int, _frame: object, _session: object, then: Continuation[bytes]) -> None:
        self.asked.append(node)
        then(b"".join(encode(Command(ResponseCode.SUCCESS, body=b"stored"))))

    def ask_again(
        self,
        attempt: Callable[[Continuation[Any]], None],
        may_repeat: Callable[[Any], bool],
        _timeout_ms: int,
        then: Callable[[Any], None],
    ) -> None:
        outcomes: list[Any] = []
        attempt(outcomes.append)
        while may_repeat(outcomes[-1]):
            attempt(outcomes.append)
        then(outcomes[-1])


def test_a_node_that_leads_by_now_handles_the_command_itself() -> None:
    # The leader has died; nobody leads for a moment, then this node does.
    cluster = ClusterOfOneQueue([NO_LEADER, NO_LEADER, 1])
    context: Any = SimpleNamespace(
        is_handed_over=False,
        command=decode(FRAME),
        session=session,
        parts=SimpleNamespace(broker=SimpleNamespace(cluster=cluster, identity=SimpleNamespace(node_id=1))),
    )
    answers: list[Command] = []
    hand_over(context, LedElsewhere(cluster.leader), answers.append)
    assert cluster.asked == [1]
    assert [(each.code, bytes(each.body)) for each in answers] == [(ResponseCode.SUCCESS, b"stored")]
