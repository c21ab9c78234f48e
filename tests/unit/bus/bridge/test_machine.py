"""A client's session, told as transcripts: what was heard, what was decided. No loop, no bus, no clock."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.bus.bridge.limits import BridgeLimits, default_limits
from hutong.bus.bridge.machine import REPLY_PREFIX, BridgeSession
from hutong.bus.bridge.messages import (
    Answered,
    AnswerFailed,
    BridgeReply,
    BridgeRequest,
    Close,
    Delivered,
    Denied,
    FailDelivery,
    FrameTooLarge,
    Instruction,
    OweReply,
    PauseAll,
    Register,
    RegistrationFailed,
    ReplyExpired,
    ResumeAll,
    Send,
    SendingPaused,
    SendingResumed,
    TooSlow,
    Unregister,
    Write,
)
from hutong.bus.bridge.permissions import Permissions, Permit
from hutong.wire.vertx.client_frames import ClientFrame, FrameKind, Malformed
from hutong.wire.vertx.codes import Code, Dialect

TCP, SOCKJS = Dialect.TCP, Dialect.SOCKJS
SEND, PUBLISH, REGISTER, UNREGISTER, PING = FrameKind
REPLY = REPLY_PREFIX + "1"
ANYTHING = [Permit(regex=".*")]


def open_session(dialect: Dialect = TCP, permissions: Permissions | None = None, **limits: int) -> BridgeSession:
    bounds = BridgeLimits(**limits) if limits else default_limits(dialect)
    return BridgeSession(dialect, permissions or Permissions(ANYTHING, ANYTHING), bounds)


def code_of(instructions: list[Instruction]) -> str:
    """The text of the one refusal that was written, in either dialect."""
    (written,) = instructions
    assert isinstance(written, Write)
    frame = json.loads(written.frame)
    assert frame["type"] == "err"
    said: str = frame.get("body") or frame["message"]
    assert written.code == said
    return said


def frame_of(instruction: Instruction) -> Any:
    assert isinstance(instruction, Write)
    return json.loads(instruction.frame)


def test_a_ping_is_answered_whatever_is_permitted() -> None:
    session = open_session(permissions=Permissions())
    assert session.handle(ClientFrame(PING, "")) == [Write(b'{"type":"pong"}')]


def test_messages_and_publications_pass() -> None:
    session = open_session()
    for kind in (SEND, PUBLISH):
        frame = ClientFrame(kind, "a", body=1)
        assert session.handle(frame) == [Send(frame)]
    assert session.requests_open == 0


def test_a_request_is_open_until_it_is_answered() -> None:
    session = open_session()
    frame = ClientFrame(SEND, "a", "r")
    assert session.handle(frame) == [BridgeRequest(frame)]
    assert session.requests_open == 1
    (written,) = session.handle(Answered("a", "r", {"x": 1}, [("h", "v")], None))
    assert frame_of(written) == {
        "type": "message", "address": "r", "headers": {"h": "v"}, "body": {"x": 1}, "send": True
    }  # fmt: skip
    assert session.requests_open == 0


def test_a_failed_request_is_told() -> None:
    session = open_session()
    session.handle(ClientFrame(SEND, "a", "r"))
    (written,) = session.handle(AnswerFailed("a", "r", 7, "RECIPIENT_FAILURE", "no"))
    assert frame_of(written) == {
        "type": "err", "address": "r", "sourceAddress": "a", "failureCode": 7,
        "failureType": "RECIPIENT_FAILURE", "message": "no",
    }  # fmt: skip
    assert session.requests_open == 0


def test_a_published_frame_with_a_reply_address_is_no_request() -> None:
    session = open_session()
    frame = ClientFrame(PUBLISH, "a", "r")
    assert session.handle(frame) == [Send(frame)]
    assert session.requests_open == 0


def test_requests_beyond_the_bound_fail() -> None:
    session = open_session(requests_open_max=2)
    for name in ("r1", "r2"):
        assert session.handle(ClientFrame(SEND, "a", name)) == [BridgeRequest(ClientFrame(SEND, "a", name))]
    (written,) = session.handle(ClientFrame(SEND, "a", "r3"))
    refused = frame_of(written)
    assert refused["address"] == "r3"
    assert refused["failureType"] == "ERROR"
    assert "requests_open_max is 2" in refused["message"]
    session.check_invariants()


@pytest.mark.parametrize("dialect", Dialect)
def test_what_is_not_permitted_is_denied(dialect: Dialect) -> None:
    session = open_session(dialect, Permissions([Permit("in")], [Permit("out")]))
    for kind, address in ((SEND, "out"), (PUBLISH, "out"), (REGISTER, "in"), (SEND, ""), (REGISTER, "x")):
        assert code_of(session.handle(ClientFrame(kind, address))) == Code.ACCESS_DENIED
    assert session.handle(ClientFrame(SEND, "in"))[0] == Send(ClientFrame(SEND, "in"))
    assert session.handle(ClientFrame(REGISTER, "out")) == [Register(1, "out")]


def test_a_denied_request_fails_at_the_client_at_once() -> None:
    session = open_session(permissions=Permissions())
    (written,) = session.handle(ClientFrame(SEND, "a", "r"))
    assert frame_of(written)["address"] == "r"
    assert session.requests_open == 0


def test_reply_addresses_of_others_are_closed_to_every_permission() -> None:
    session = open_session()
    for kind in (SEND, PUBLISH, REGISTER):
        assert code_of(session.handle(ClientFrame(kind, REPLY))) == Code.ACCESS_DENIED


def test_a_message_may_be_answered_once_whatever_is_permitted() -> None:
    session = open_session(permissions=Permissions(outbound=[Permit("svc")]))
    session.handle(ClientFrame(REGISTER, "svc"))
    owe, written = session.handle(Delivered(1, "q", [], REPLY, is_send=True))
    assert owe == OweReply(REPLY)
    assert frame_of(written)["replyAddress"] == REPLY
    answer = ClientFrame(SEND, REPLY, body="a")
    assert session.handle(answer) == [BridgeReply(answer, is_request=False)]
    assert code_of(session.handle(answer)) == Code.ACCESS_DENIED


def test_an_answer_may_be_a_failure_or_ask_back() -> None:
    session = open_session()
    session.handle(ClientFrame(REGISTER, "svc"))
    session.handle(Delivered(1, "q", [], REPLY, is_send=True))
    failed = ClientFrame(SEND, REPLY, "r", failure=(3, "no"))
    assert session.handle(failed) == [BridgeReply(failed, is_request=False)]
    session.handle(Delivered(1, "q", [], REPLY, is_send=True))
    asking = ClientFrame(SEND, REPLY, "r")
    assert session.handle(asking) == [BridgeReply(asking, is_request=True)]
    assert session.requests_open == 1
    owe, _ = session.handle(Answered(REPLY, "r", "further", [], REPLY_PREFIX + "2"))
    assert owe == OweReply(REPLY_PREFIX + "2")


def test_what_was_not_answered_in_time_no_longer_may_be() -> None:
    session = open_session()
    session.handle(ClientFrame(REGISTER, "svc"))
    session.handle(Delivered(1, "q", [], REPLY, is_send=True))
    assert session.handle(ReplyExpired(REPLY)) == []
    assert code_of(session.handle(ClientFrame(SEND, REPLY))) == Code.ACCESS_DENIED


def test_a_failure_goes_to_nobody_but_who_asked() -> None:
    assert code_of(open_session().handle(ClientFrame(SEND, "a", failure=(1, "no")))) == Code.INVALID_FAILURE


def test_tcp_clients_may_listen_twice_and_leave_one_at_a_time() -> None:
    session = open_session()
    frame, leave = ClientFrame(REGISTER, "a"), ClientFrame(UNREGISTER, "a")
    assert session.handle(frame) == [Register(1, "a")]
    assert session.handle(frame) == [Register(2, "a")]
    assert session.handle(leave) == [Unregister(1)]
    assert session.handle(Delivered(1, "late", [], None, is_send=False)) == []
    assert len(session.handle(Delivered(2, "for the other", [], None, is_send=False))) == 1
    assert session.handle(leave) == [Unregister(2)]
    assert code_of(session.handle(leave)) == Code.UNKNOWN_ADDRESS
    assert session.registrations == 0


def test_sockjs_clients_listen_once_and_may_leave_what_they_never_joined() -> None:
    session = open_session(SOCKJS)
    assert session.handle(ClientFrame(REGISTER, "a")) == [Register(1, "a")]
    assert code_of(session.handle(ClientFrame(REGISTER, "a"))) == Code.ALREADY_REGISTERED
    assert session.handle(ClientFrame(UNREGISTER, "b")) == []


@pytest.mark.parametrize("dialect", Dialect)
def test_registrations_are_bounded(dialect: Dialect) -> None:
    session = open_session(dialect)
    for number in range(10_000):
        answer = session.handle(ClientFrame(REGISTER, f"a{number}"))
        if number < 1000:
            assert answer == [Register(number + 1, f"a{number}")]
        else:
            assert code_of(answer) == Code.MAX_HANDLERS_REACHED
    session.check_invariants()
    session.handle(ClientFrame(UNREGISTER, "a7"))
    assert session.handle(ClientFrame(REGISTER, "again")) == [Register(1001, "again")]


def test_addresses_are_bounded() -> None:
    for kind in (SEND, PUBLISH, REGISTER, UNREGISTER):
        assert code_of(open_session().handle(ClientFrame(kind, "a" * 201))) == Code.ADDRESS_TOO_LONG
    assert code_of(open_session().handle(ClientFrame(SEND, "a", "r" * 201))) == Code.INVALID_REPLY_ADDRESS
    assert code_of(open_session(SOCKJS).handle(ClientFrame(SEND, "a", "r" * 37))) == Code.INVALID_REPLY_ADDRESS
    assert open_session(SOCKJS).handle(ClientFrame(SEND, "a", "r" * 36))[0] == BridgeRequest(
        ClientFrame(SEND, "a", "r" * 36)
    )


def test_a_failed_registration_is_forgotten() -> None:
    session = open_session()
    session.handle(ClientFrame(REGISTER, "a"))
    assert code_of(session.handle(RegistrationFailed(1))) == Code.REGISTRATION_FAILURE
    assert session.registrations == 0


def test_refusals_of_others_are_passed_on() -> None:
    session = open_session()
    assert code_of(session.handle(Malformed(Code.INVALID_JSON))) == Code.INVALID_JSON
    frame = ClientFrame(SEND, "a", "r")
    assert code_of(session.handle(Denied(frame, Code.NOT_LOGGED_IN))) == Code.NOT_LOGGED_IN


@pytest.mark.parametrize("dialect", Dialect)
def test_a_message_that_json_cannot_carry_fails_its_sender(dialect: Dialect) -> None:
    session = open_session(dialect)
    session.handle(ClientFrame(REGISTER, "a"))
    assert code_of(session.handle(Delivered(1, object(), [], None, is_send=True))) == Code.NOT_JSON
    told, failed = session.handle(Delivered(1, "\ud800", [], REPLY, is_send=True))
    assert code_of([told]) == Code.NOT_JSON
    assert isinstance(failed, FailDelivery)
    assert failed.reply_address == REPLY


def test_a_reply_that_json_cannot_carry_fails_the_request() -> None:
    session = open_session()
    session.handle(ClientFrame(SEND, "a", "r"))
    told, failed = session.handle(Answered("a", "r", object(), [], REPLY))
    assert frame_of(told)["address"] == "r"
    assert frame_of(told)["message"] == Code.NOT_JSON
    assert isinstance(failed, FailDelivery)
    assert session.requests_open == 0


def test_replies_owed_are_bounded() -> None:
    session = open_session(replies_owed_max=1)
    session.handle(ClientFrame(REGISTER, "a"))
    session.handle(Delivered(1, 1, [], REPLY, is_send=True))
    _, failed = session.handle(Delivered(1, 2, [], REPLY_PREFIX + "2", is_send=True))
    assert failed == FailDelivery(REPLY_PREFIX + "2", "replies_owed_max is 1 for one client")
    session.check_invariants()


def test_a_client_that_does_not_read_is_paused_and_then_closed() -> None:
    session = open_session()
    assert session.handle(SendingPaused()) == [PauseAll()]
    assert session.is_paused
    assert session.handle(SendingResumed()) == [ResumeAll()]
    session.handle(SendingPaused())
    refused, closed = session.handle(TooSlow())
    assert code_of([refused]) == Code.SLOW_CLIENT
    assert closed == Close(Code.SLOW_CLIENT)
    assert session.handle(ClientFrame(SEND, "a")) == []
    assert session.handle(SendingResumed()) == []
    assert session.handle(TooSlow()) == []


def test_a_frame_too_large_closes() -> None:
    refused, closed = open_session().handle(FrameTooLarge())
    assert code_of([refused]) == Code.FRAME_TOO_LARGE
    assert closed == Close(Code.FRAME_TOO_LARGE)


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="handlers_max"):
        BridgeLimits(handlers_max=0)
    with pytest.raises(ValueError, match="address_characters_max"):
        BridgeLimits(address_characters_max=201)


addresses = st.sampled_from(["a", "b", "denied", REPLY, REPLY_PREFIX + "2"])
frames = st.builds(
    ClientFrame,
    st.sampled_from(FrameKind),
    addresses,
    st.none() | st.sampled_from(["r1", "r2"]),
    failure=st.none() | st.just((1, "no")),
)
comings = st.builds(
    Delivered, st.integers(1, 8), st.just("body"), st.just(()), st.none() | addresses, is_send=st.booleans()
)


@given(st.sampled_from(Dialect), st.lists(frames | comings | st.builds(ReplyExpired, addresses), max_size=100))
def test_nothing_denied_passes_whatever_happens(dialect: Dialect, script: list[Any]) -> None:
    permitted = [Permit("a"), Permit("b")]
    session = open_session(dialect, Permissions(permitted, permitted), handlers_max=3, replies_owed_max=2)
    owed: set[str] = set()
    open_requests: list[ClientFrame] = []
    for event in script:
        if isinstance(event, Delivered) and event.reply_address in owed:
            continue  # the bus gives each reply address once
        if isinstance(event, ReplyExpired):
            owed.discard(event.reply_address)
        for instruction in session.handle(event):
            match instruction:
                case Send(frame) | BridgeRequest(frame):
                    assert frame.address in ("a", "b")
                    open_requests += [frame] * isinstance(instruction, BridgeRequest)
                case Register(_, address):
                    assert address in ("a", "b")
                case BridgeReply(frame, is_request):
                    owed.remove(frame.address)
                    open_requests += [frame] * is_request
                case OweReply(reply_address):
                    owed.add(reply_address)
        session.check_invariants()
    assert session.requests_open == len(open_requests)
    for frame in open_requests:
        assert frame.reply_address is not None
        session.handle(AnswerFailed(frame.address, frame.reply_address, -1, "TIMEOUT", ""))
    assert session.requests_open == 0
