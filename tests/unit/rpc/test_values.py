"""Values, failures and errors on their way: each arrives as it was sent."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.unit.rpc.descriptions.test_description import Colour, Line, Parts, Place

from hutong.bus.envelope.service_failure import ServiceFailure, ServiceFailureCodec
from hutong.foundation.errors import ProtocolError
from hutong.rpc import BadReply, DispatchFailed, OutcomeUnknown, RequestExpired, ServiceError, ServiceFault
from hutong.rpc.calling.transport import CallSite
from hutong.rpc.descriptions.conversion import arguments_from, result_from, result_to_builtins, to_builtins
from hutong.rpc.errors import Failure, error_of
from hutong.rpc.remote.outgoing import Prepared
from hutong.rpc.remote.wire import encode_body
from hutong.wire.rocketmq.command import Command


class Everything(msgspec.Struct):
    text: str
    number: int
    real: float
    data: bytes
    when: datetime
    span: timedelta
    price: Decimal
    number_of: UUID
    colour: Colour
    line: Line
    place: Place
    parts: Parts
    by_number: dict[int, list[str]]
    maybe: bool | None


JSON = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**63), 2**64 - 1)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)
EVERYTHING = some.builds(
    Everything,
    real=some.floats(allow_nan=False, allow_infinity=False),
    when=some.datetimes(timezones=some.just(UTC)),
    span=some.timedeltas(timedelta(days=-1_000), timedelta(days=1_000)),
    price=some.decimals(allow_nan=False, allow_infinity=False),
    line=some.builds(Line, then=some.none()),
    parts=some.fixed_dictionaries({"size": some.integers()}),
)


@settings(deadline=None)
@given(EVERYTHING)
def test_a_struct_comes_back(value: Everything) -> None:
    found = to_builtins(value)
    msgspec.json.encode(found)  # JSON can express it
    assert arguments_from(found, "act", Everything) == value
    assert result_from(found, Everything, "act") == value


@settings(deadline=None)
@given(JSON)
def test_what_json_can_say_stays_as_it_is(value: Any) -> None:
    assert to_builtins(value) == value
    assert result_from(value, Any, "act") == value


def test_what_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for wrong in (endless, object(), {"x": {1j}}, lambda: None):
        with pytest.raises(DispatchFailed, match="the result of 'act' cannot be sent"):
            result_to_builtins("act", wrong)


def test_a_result_of_another_type() -> None:
    with pytest.raises(BadReply, match="the answer to 'act'"):
        result_from([], None, "act")
    with pytest.raises(BadReply, match="the answer to 'act'"):
        result_from(1.5, int, "act")
    assert result_from(2, float, "act") == 2.0


@settings(deadline=None)
@given(some.integers(-(2**31), 2**31 - 1), some.text(), some.none() | some.dictionaries(some.text(), JSON, max_size=3))
def test_a_failure_comes_back_from_its_codec(code: int, text: str, info: dict[str, Any] | None) -> None:
    codec = ServiceFailureCodec()
    try:
        data = codec.encode(ServiceFailure(code, text, info))
    except UnicodeEncodeError:  # half of a surrogate pair is no text
        return
    back = codec.decode(data)
    assert (back.failure_code, back.message, back.debug_info) == (code, text, info or None)


@settings(deadline=None)
@given(some.binary(max_size=64))
def test_bytes_that_are_no_failure(data: bytes) -> None:
    with suppress(ProtocolError):
        ServiceFailureCodec().decode(data)


def test_codes_become_classes() -> None:
    class Odd(ServiceError):
        code = 17

        def __init__(self, item: str, count: int) -> None:
            super().__init__(f"{count} of {item}")

    assert type(error_of(Failure(17, "no"), {17: Odd})) is Odd
    assert error_of(Failure(17, "no"), {17: Odd}).message == "no"
    for code, kind in ((17, ServiceError), (-1, ServiceFault), (500, DispatchFailed), (-2, OutcomeUnknown)):
        assert type(error_of(Failure(code), {})) is kind
    assert isinstance(error_of(Failure(-3), {}), RequestExpired)
    with pytest.raises(ValueError, match="32 bits"):
        ServiceError("far", code=1 << 31)


class Unset(msgspec.Struct):
    """A result whose field may not be set: msgspec raises AttributeError."""

    size: int


class Picky(msgspec.Struct):
    """A result that raises what msgspec does not catch."""

    size: int

    def __post_init__(self) -> None:
        raise KeyError("secret")


def test_a_result_that_cannot_be_read_is_a_failure() -> None:
    unset = Unset(1)
    del unset.size
    with pytest.raises(DispatchFailed, match="the result of 'size' cannot be sent: AttributeError"):
        result_to_builtins("size", unset)
    with pytest.raises(ValueError, match="AttributeError"):
        encode_body(unset)


def test_a_result_whose_own_type_raises_is_a_bad_reply() -> None:
    with pytest.raises(BadReply, match="secret"):
        result_from({"size": 1}, Picky, "size")
    prepared = Prepared(CallSite("shop", "size", None, (), Picky))
    read = prepared.read(Command(0, body=encode_body({"size": 1})))
    assert isinstance(read, BadReply)
