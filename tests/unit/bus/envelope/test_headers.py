"""Headers: values of one name in order, in upper and lower case, within two bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.bus import Headers
from hutong.bus.envelope.headers import HEADER_CHARACTERS_MAX, HEADERS_MAX
from hutong.foundation.errors import LimitExceeded


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
