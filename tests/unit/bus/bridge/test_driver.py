"""Clients of a bridge on a real bus, without a socket: messages, clean-up and notifications."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from hutong.bus import EventBus, FailureType, Message, ReplyError
from hutong.bus.bridge.bridge import Bridge
from hutong.bus.bridge.driver import ConnectedClient
from hutong.bus.bridge.hooks import BridgeEvent, BridgePeer, EventKind, Verdict
from hutong.bus.bridge.limits import BridgeLimits
from hutong.bus.bridge.machine import REPLY_PREFIX
from hutong.bus.bridge.permissions import Permissions, Permit
from hutong.bus.envelope.message import REPLY_PREFIX as BUS_REPLY_PREFIX
from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.runtime.runtime import Runtime
from hutong.wire.vertx.client_frames import ClientFrame
from hutong.wire.vertx.codes import Code, Dialect

ANYTHING = [Permit(regex=".*")]


class Wire:
    """An outlet that keeps what it was given; `said` waits for the next frame."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[Any] = asyncio.Queue()
        self.resumed = asyncio.Event()
        self.is_closed = False

    def write(self, frame: bytes) -> None:
        self.frames.put_nowait(json.loads(frame))

    def resume(self) -> None:
        self.resumed.set()

    def close(self) -> None:
        self.is_closed = True

    async def said(self) -> Any:
        return await self.frames.get()


class Rig:
    """A bridge on a bus, with a clock of its own; `connect` makes a client."""

    def __init__(self, bus: EventBus, runtime: Runtime, dialect: Dialect = Dialect.TCP, **options: Any) -> None:
        self.bus = bus
        self.clock = ManualClock()
        self.wheel = TimerWheel(0)
        self.errors: list[BaseException] = []
        context = runtime.context(name="bridge")
        context.exception_handler = self.errors.append
        permissions = options.pop("permissions", Permissions(ANYTHING, ANYTHING))
        self.bridge = Bridge(bus, context, dialect, permissions, clock=self.clock, wheel=self.wheel, **options)

    def connect(self) -> tuple[ConnectedClient, Wire]:
        wire = Wire()
        client = self.bridge.connect(BridgePeer(0, "127.0.0.1", 1), wire)
        assert client is not None
        return client, wire

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    def parked(self) -> int:
        return sum(len(table) for table in self.bridge.waits.values())


@pytest.fixture
def rig(bus: EventBus, runtime: Runtime) -> Callable[..., Rig]:
    return lambda *arguments, **options: Rig(bus, runtime, *arguments, **options)


def frame(**members: Any) -> bytes:
    return json.dumps(members).encode()


def test_the_session_knows_the_reply_addresses_of_the_bus() -> None:
    assert REPLY_PREFIX == BUS_REPLY_PREFIX


async def test_a_request_is_answered(rig: Callable[..., Rig], bus: EventBus) -> None:
    bus.consumer("echo", lambda message: message.reply([message.body, *message.headers.get_all("h")]))
    client, wire = rig().connect()
    client.receive(frame(type="send", address="echo", replyAddress="r", body={"a": 1}, headers={"h": ["v", "w"]}))
    answer = {"type": "message", "address": "r", "headers": {}, "body": [{"a": 1}, "v", "w"]}
    assert await wire.said() == answer | {"send": True}
    assert client.session.requests_open == 0
    client.ended()


class BrokenCodec:
    name = "broken"

    def encode(self, body: Any) -> bytes:
        return b""

    def decode(self, data: bytes) -> Any:
        return None

    def transform(self, body: Any) -> Any:
        raise AttributeError("secret")


async def test_a_codec_that_raises_is_told_and_hurts_nobody(rig: Callable[..., Rig], bus: EventBus) -> None:
    bus.register_codec(BrokenCodec())
    bus.consumer("echo", lambda message: message.body)
    made = rig()
    client, wire = made.connect()
    for reply_address in ("r", None):
        members = {"replyAddress": reply_address} if reply_address else {}
        client.receive(frame(type="send", address="echo", body=1, headers={"codecName": "broken"}, **members))
    said = [await wire.said() for _ in range(2)]
    assert "secret" not in str(said)
    assert [(one["type"], one.get("failureType"), one["message"]) for one in said] == [
        ("err", "ERROR", "a codec failed"),
        ("err", None, "not_delivered"),
    ]
    assert [str(error) for error in made.errors] == ["secret"] * 2
    client.ended()


@pytest.mark.parametrize(
    ("handler", "code", "kind", "text"),
    [
        (lambda message: message.fail(7, "no"), 7, "RECIPIENT_FAILURE", "no"),
        (lambda message: 1 / 0, -1, "RECIPIENT_FAILURE", "the handler raised an error"),
        (lambda message: message.reply("\ud800"), -1, "ERROR", "not_json"),
    ],
)
async def test_a_request_fails_as_its_handler_does(
    rig: Callable[..., Rig], bus: EventBus, handler: Callable[[Message], Any], code: int, kind: str, text: str
) -> None:
    consumer = bus.consumer("fail", handler)
    consumer.context.exception_handler = lambda error: None
    client, wire = rig().connect()
    client.receive(frame(type="send", address="fail", replyAddress="r"))
    told = await wire.said()
    assert (told["failureCode"], told["failureType"], told["message"]) == (code, kind, text)
    assert (told["address"], told["sourceAddress"]) == ("r", "fail")
    client.ended()


async def test_a_request_to_nobody_and_one_that_takes_too_long(rig: Callable[..., Rig], bus: EventBus) -> None:
    bus.consumer("silent", lambda message: None)
    client, wire = rig().connect()
    client.receive(frame(type="send", address="nobody", replyAddress="r1"))
    assert (await wire.said())["failureType"] == "NO_HANDLERS"
    client.receive(frame(type="send", address="silent", replyAddress="r2", headers={"timeout": 1}))
    assert (await wire.said())["failureType"] == "TIMEOUT"
    client.ended()


async def test_a_client_serves_requests_of_the_bus(rig: Callable[..., Rig], bus: EventBus) -> None:
    client, wire = rig(permissions=Permissions(outbound=[Permit("svc")])).connect()
    client.receive(frame(type="register", address="svc"))
    reply = bus.request("svc", "question")
    asked = await wire.said()
    assert (asked["address"], asked["body"]) == ("svc", "question")
    client.receive(frame(type="send", address=asked["replyAddress"], body="answer", headers={"h": "v"}))
    answer = await reply
    assert (answer.body, answer.headers.items()) == ("answer", [("h", "v")])
    client.ended()


async def test_a_client_may_fail_a_request_and_ask_back(rig: Callable[..., Rig], bus: EventBus) -> None:
    client, wire = rig().connect()
    client.receive(frame(type="register", address="svc"))
    reply = bus.request("svc")
    asked = await wire.said()
    client.receive(frame(type="send", address=asked["replyAddress"], failureCode=42, message="bad"))
    with pytest.raises(ReplyError) as caught:
        await reply
    assert (caught.value.failure_type, caught.value.failure_code) == (FailureType.RECIPIENT_FAILURE, 42)
    reply = bus.request("svc")
    asked = await wire.said()
    client.receive(frame(type="send", address=asked["replyAddress"], replyAddress="back", body="which?"))
    (await reply).reply("that")
    assert (await wire.said())["body"] == "that"
    client.ended()


async def test_a_client_that_vanishes_leaves_nothing(rig: Callable[..., Rig], bus: EventBus) -> None:
    bus.consumer("silent", lambda message: None)
    rigged = rig()
    client, wire = rigged.connect()
    client.receive(frame(type="register", address="svc"))
    client.receive(frame(type="send", address="silent", replyAddress="r"))
    reply = bus.request("svc")
    await wire.said()
    assert rigged.parked() == 1
    assert bus.replies_waiting == 2
    client.sending_changed(True)
    assert rigged.parked() == 2
    client.ended()
    client.ended()
    with pytest.raises(ReplyError, match="has gone"):
        await reply
    assert rigged.parked() == 0
    assert bus.replies_waiting == 0
    with pytest.raises(ReplyError, match="no handlers"):
        await bus.request("svc")
    assert rigged.bridge.figures.clients == rigged.bridge.figures.registrations == 0


async def test_what_is_not_answered_in_time_no_longer_may_be(rig: Callable[..., Rig], bus: EventBus) -> None:
    rigged = rig(limits=BridgeLimits(reply_timeout_ms=500))
    client, wire = rigged.connect()
    client.receive(frame(type="register", address="svc"))
    reply = bus.request("svc")
    asked = await wire.said()
    rigged.pass_ms(1_000)
    assert rigged.parked() == 0
    client.receive(frame(type="send", address=asked["replyAddress"], body="late"))
    assert (await wire.said())["message"] == Code.ACCESS_DENIED
    reply.cancel()
    client.ended()


async def test_clients_are_given_publications_until_they_unregister(rig: Callable[..., Rig], bus: EventBus) -> None:
    rigged = rig()
    (one, first), (other, second) = rigged.connect(), rigged.connect()
    for client in (one, other):
        client.receive(frame(type="register", address="news"))
    one.receive(frame(type="publish", address="news", body=[1]))
    assert (await first.said())["body"] == (await second.said())["body"] == [1]
    one.receive(frame(type="unregister", address="news"))
    other.receive(frame(type="publish", address="news", body=2))
    assert (await second.said())["body"] == 2
    assert first.frames.empty()
    one.ended()
    other.ended()


async def test_a_client_that_does_not_read_pauses_its_registrations(rig: Callable[..., Rig], bus: EventBus) -> None:
    rigged = rig()
    client, wire = rigged.connect()
    client.receive(frame(type="register", address="news"))
    client.sending_changed(True)
    client.receive(frame(type="register", address="more"))
    bus.publish("news", 1)
    bus.publish("more", 2)
    other, seen = rigged.connect()
    other.receive(frame(type="register", address="news"))
    bus.publish("news", 3)
    assert (await seen.said())["body"] == 3
    assert wire.frames.empty()
    client.sending_changed(False)
    assert sorted([(await wire.said())["body"] for _ in range(3)]) == [1, 2, 3]
    assert rigged.parked() == 0
    client.ended()
    other.ended()


async def test_a_client_that_does_not_read_for_too_long_is_closed(rig: Callable[..., Rig], bus: EventBus) -> None:
    rigged = rig(limits=BridgeLimits(slow_client_ms_max=500))
    client, wire = rigged.connect()
    client.sending_changed(True)
    rigged.pass_ms(1_000)
    assert (await wire.said())["message"] == Code.SLOW_CLIENT
    assert wire.is_closed
    client.ended()
    assert rigged.bridge.figures.refused_total[Code.SLOW_CLIENT] == 1


async def test_one_whose_buffer_runs_over_is_closed(rig: Callable[..., Rig], bus: EventBus) -> None:
    client, wire = rig(limits=BridgeLimits(buffered_messages_max=3)).connect()
    client.receive(frame(type="register", address="news"))
    client.sending_changed(True)
    for number in range(4):
        bus.publish("news", number)
    assert (await wire.said())["message"] == Code.SLOW_CLIENT
    assert wire.is_closed
    client.ended()


async def test_one_whose_buffer_runs_over_while_it_is_emptied_is_closed(rig: Callable[..., Rig], bus: EventBus) -> None:
    client, wire = rig(limits=BridgeLimits(buffered_messages_max=3)).connect()
    client.receive(frame(type="register", address="news"))
    client.sending_changed(True)
    for number in range(3):
        bus.publish("news", number)
    await asyncio.sleep(0)
    # It reads again, and more comes in the same moment than the buffer has room for.
    client.sending_changed(False)
    for number in range(3, 7):
        bus.publish("news", number)
    said = [await wire.said()]
    while "body" in said[-1]:
        said.append(await wire.said())
    assert [each["body"] for each in said[:-1]] == [*range(len(said) - 1)], "none is skipped"
    assert said[-1]["message"] == Code.SLOW_CLIENT
    assert wire.is_closed
    client.ended()


async def test_an_unregistration_discards_and_closes_nothing(rig: Callable[..., Rig], bus: EventBus) -> None:
    client, wire = rig().connect()
    client.receive(frame(type="register", address="news"))
    client.sending_changed(True)
    bus.publish("news", 1)
    await asyncio.sleep(0)
    client.receive(frame(type="unregister", address="news"))
    await asyncio.sleep(0)
    assert wire.frames.empty()
    assert not wire.is_closed
    client.ended()


async def test_one_that_asks_without_reading_is_closed(rig: Callable[..., Rig], bus: EventBus) -> None:
    bus.consumer("large", lambda message: message.reply("x" * 1_000))
    client, wire = rig(limits=BridgeLimits(unsent_bytes_max=2_500)).connect()
    client.sending_changed(True)
    for number in range(3):
        client.receive(frame(type="send", address="large", replyAddress=f"r{number}"))
    said = [await wire.said() for _ in range(4)]
    assert said[-1]["message"] == Code.SLOW_CLIENT
    assert wire.is_closed
    client.ended()


async def test_a_registration_the_bus_refuses(rig: Callable[..., Rig], bus: EventBus) -> None:
    await bus.close()
    client, wire = rig().connect()
    client.receive(frame(type="register", address="a"))
    assert (await wire.said())["message"] == Code.REGISTRATION_FAILURE
    client.receive(frame(type="publish", address="a"))
    assert (await wire.said())["message"] == Code.NOT_DELIVERED
    client.receive(frame(type="send", address="a", replyAddress="r"))
    assert (await wire.said())["failureType"] == "ERROR"
    client.ended()


async def test_a_frame_too_large_is_told_before_the_end(rig: Callable[..., Rig]) -> None:
    client, wire = rig().connect()
    client.frame_too_large()
    assert await wire.said() == {"type": "err", "message": "frame_too_large"}
    assert wire.is_closed
    client.ended()


# Who is asked first.


async def test_an_authenticator_sees_every_frame_but_pings(rig: Callable[..., Rig]) -> None:
    seen: list[str] = []

    def authenticator(peer: BridgePeer, asked: ClientFrame) -> Verdict:
        seen.append(asked.address)
        if asked.address == "login":
            peer.user = asked.body
        if peer.user is None:
            return Verdict.NOT_LOGGED_IN
        return Verdict.DENIED if asked.address == "secret" else Verdict.ALLOWED

    client, wire = rig(authenticator=authenticator).connect()
    client.receive(frame(type="ping"))
    assert (await wire.said())["type"] == "pong"
    client.receive(frame(type="register", address="a"))
    assert (await wire.said())["message"] == Code.NOT_LOGGED_IN
    client.receive(frame(type="publish", address="login", body="ann"))
    client.receive(frame(type="send", address="secret"))
    assert (await wire.said())["message"] == Code.ACCESS_DENIED
    client.receive(frame(type="register", address="a"))
    client.receive(frame(type="publish", address="a", body=1))
    assert (await wire.said())["body"] == 1
    assert seen == ["a", "login", "secret", "a", "a"]
    client.ended()


async def test_while_an_authenticator_thinks_nothing_further_is_begun(rig: Callable[..., Rig]) -> None:
    decided: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

    async def authenticator(peer: BridgePeer, asked: ClientFrame) -> Verdict:
        return await decided

    client, wire = rig(authenticator=authenticator).connect()
    assert client.receive(frame(type="register", address="a"))
    assert not client.receive(frame(type="publish", address="a", body=1))
    decided.set_result(Verdict.ALLOWED)
    await wire.resumed.wait()
    assert client.receive(frame(type="publish", address="a", body=1))
    assert (await wire.said())["body"] == 1
    client.ended()


async def test_a_client_may_go_while_an_authenticator_thinks(rig: Callable[..., Rig]) -> None:
    decided: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def authenticator(peer: BridgePeer, asked: ClientFrame) -> Verdict:
        verdict = await decided
        asyncio.get_running_loop().call_soon(done.set)
        return verdict

    rigged = rig(authenticator=authenticator)
    client, wire = rigged.connect()
    client.receive(frame(type="register", address="a"))
    client.ended()
    decided.set_result(Verdict.ALLOWED)
    await done.wait()
    assert rigged.bridge.figures.registrations == 0
    assert wire.frames.empty()
    assert not wire.resumed.is_set()


@pytest.mark.parametrize("is_coroutine", [False, True])
async def test_an_authenticator_that_raises_denies_and_is_told_of(rig: Callable[..., Rig], is_coroutine: bool) -> None:
    def raises(peer: BridgePeer, asked: ClientFrame) -> Verdict:
        raise ZeroDivisionError

    async def raises_later(peer: BridgePeer, asked: ClientFrame) -> Verdict:
        raise ZeroDivisionError

    rigged = rig(authenticator=raises_later if is_coroutine else raises)
    client, wire = rigged.connect()
    client.receive(frame(type="send", address="a", replyAddress="r"))
    told = await wire.said()
    assert (told["address"], told["message"]) == ("r", Code.AUTH_ERROR)
    assert [type(error) for error in rigged.errors] == [ZeroDivisionError]
    client.ended()


async def test_an_authenticator_that_says_nothing_denies(rig: Callable[..., Rig]) -> None:
    rigged = rig(authenticator=lambda peer, asked: None)
    client, wire = rigged.connect()
    client.receive(frame(type="send", address="a"))
    assert (await wire.said())["message"] == Code.AUTH_ERROR
    assert "Verdict" in str(rigged.errors[0])
    client.ended()


async def test_the_event_hook_sees_all_and_may_change_it(rig: Callable[..., Rig], bus: EventBus) -> None:
    kinds: list[EventKind] = []

    def hook(event: BridgeEvent) -> bool:
        kinds.append(event.kind)
        if event.kind is EventKind.PUBLISH:
            event.address, event.body, event.headers = "news", [event.body], (("by", "hook"),)
        elif event.kind is EventKind.RECEIVE:
            event.body = {"seen": event.body}
        return True

    client, wire = rig(hook=hook, permissions=Permissions([Permit("news")], [Permit("news")])).connect()
    client.receive(frame(type="register", address="news"))
    client.receive(frame(type="publish", address="elsewhere", body=1))
    told = await wire.said()
    assert (told["body"], told["headers"]) == ({"seen": [1]}, {"by": "hook"})
    client.receive(frame(type="unregister", address="news"))
    client.ended()
    assert kinds == [
        EventKind.OPENED, EventKind.REGISTER, EventKind.PUBLISH, EventKind.RECEIVE, EventKind.UNREGISTER,
        EventKind.CLOSED,
    ]  # fmt: skip


@pytest.mark.parametrize(("dialect", "code"), [(Dialect.TCP, Code.BLOCKED), (Dialect.SOCKJS, Code.REJECTED)])
async def test_the_event_hook_may_block(rig: Callable[..., Rig], bus: EventBus, dialect: Dialect, code: Code) -> None:
    blocked = {EventKind.SEND, EventKind.RECEIVE}
    rigged = rig(dialect, hook=lambda event: event.kind not in blocked)
    client, wire = rigged.connect()
    client.receive(frame(type="send", address="a"))
    told = await wire.said()
    assert told["message" if dialect is Dialect.TCP else "body"] == code
    client.receive(frame(type="register", address="svc"))
    with pytest.raises(ReplyError, match="blocked"):
        await bus.request("svc")
    client.ended()


async def test_the_event_hook_may_refuse_a_connection(rig: Callable[..., Rig]) -> None:
    def hook(event: BridgeEvent) -> bool:
        raise ZeroDivisionError

    rigged = rig(hook=hook)
    assert rigged.bridge.connect(BridgePeer(0, "127.0.0.1", 1), Wire()) is None
    assert rigged.bridge.figures.clients == 0
    assert [type(error) for error in rigged.errors] == [ZeroDivisionError]
