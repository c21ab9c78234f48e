"""Commands that other nodes hand over: each is answered once, and no more wait than are allowed."""

from typing import Any

import pytest

from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.handling.session import ClientSession
from hutong.broker.rocketmq.cluster import distant_clients
from hutong.broker.rocketmq.cluster.distant_clients import DistantChannel, DistantCommands
from hutong.foundation.errors import LimitExceeded, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.foundation.waiting.table import Owner
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.principals import Principal
from hutong.wire.rocketmq.command import Command, decode, encode_binary

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
