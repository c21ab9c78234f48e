"""Headers, options and errors: values with bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.bus import DeliveryOptions, FailureType, Headers, ReplyError
from hutong.bus.envelope.headers import HEADER_CHARACTERS_MAX, HEADERS_MAX
from hutong.foundation.errors import HutongError, LimitExceeded


def test_headers_are_multi_valued_ordered_and_found_whatever_their_case() -> None:
    headers = Headers([("Name", "1"), ("other", "2")]).add("NAME", "3")
    assert headers.get("name") == "1"
    assert headers.get_all("nAmE") == ["1", "3"]
    assert headers.items() == [("Name", "1"), ("other", "2"), ("NAME", "3")]
    assert list(headers) == ["Name", "other", "NAME"]
    assert (len(headers), "OTHER" in headers, "none" in headers, 5 in headers) == (3, True, False, False)
    assert headers.get("none") is None
    assert headers.get("none", "default") == "default"
    headers.set("NAME", "4")
    assert headers.items() == [("other", "2"), ("NAME", "4")]
    assert headers.remove("other").items() == [("NAME", "4")]
    assert headers == Headers({"NAME": "4"})
    assert "NAME" in repr(headers)


@given(st.lists(st.tuples(st.sampled_from(["add", "set", "remove"]), st.sampled_from("aAbB"), st.text(max_size=3))))
def test_headers_are_a_list_of_pairs(script: list[tuple[str, str, str]]) -> None:
    headers, model = Headers(), list[tuple[str, str]]()
    for step, name, value in script:
        if step != "add":
            model = [pair for pair in model if pair[0].lower() != name.lower()]
        if step != "remove":
            model.append((name, value))
        arguments = (name,) if step == "remove" else (name, value)
        getattr(headers, step)(*arguments)
        assert headers.items() == model
        assert headers.get(name) == next((value for key, value in model if key.lower() == name.lower()), None)


@pytest.mark.parametrize(("name", "value"), [(None, "x"), ("x", None), (b"x", "x"), ("x", 1)])
def test_null_headers_are_rejected(name: str, value: str) -> None:
    for change in (Headers().add, Headers().set):
        with pytest.raises(TypeError, match="a header is two strings"):
            change(name, value)


def test_headers_are_bounded() -> None:
    headers = Headers()
    for _ in range(HEADERS_MAX):
        headers.add("name", "value")
    with pytest.raises(LimitExceeded, match="headers_max"):
        headers.add("name", "value")
    headers.set("name", "x" * (HEADER_CHARACTERS_MAX - 4))
    for change in (headers.add, headers.set):
        with pytest.raises(LimitExceeded, match="header_characters_max"):
            change("other", "x" * HEADER_CHARACTERS_MAX)
    assert len(headers) == 1


@pytest.mark.parametrize("timeout_ms", [0, -1, 1 << 31])
def test_delivery_options_have_a_sensible_timeout(timeout_ms: int) -> None:
    with pytest.raises(ValueError, match="timeout_ms is between 1"):
        DeliveryOptions(timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    "wrong",
    [{"timeout_ms": 1.5}, {"timeout_ms": True}, {"headers": {"a": "b"}}, {"codec_name": 5}, {"timeout_ms": None}],
)
def test_delivery_options_are_checked_where_they_are_made(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        DeliveryOptions(**wrong)  # type: ignore[arg-type]


def test_reply_errors_say_what_they_are() -> None:
    error = ReplyError(FailureType.NO_HANDLERS)
    assert (error.failure_code, error.message, str(error)) == (-1, "", "no handlers")
    assert repr(ReplyError(FailureType.ERROR, 5, "text")) == "ReplyError(ERROR, 5, 'text')"
    assert isinstance(error, HutongError)
    assert [kind.value for kind in FailureType] == [0, 1, 2, 3]
