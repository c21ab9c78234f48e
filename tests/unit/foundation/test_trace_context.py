"""W3C Trace Context: what is taken, what counts as absent, and that nothing a stranger sends is ever raised for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.trace_context import (
    MEMBERS_MAX,
    TRACESTATE_CHARACTERS_MAX,
    TraceContext,
    format_state,
    parse_traceparent,
    parse_tracestate,
    read_trace,
    without_trace,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_a_traceparent_is_read() -> None:
    assert parse_traceparent(PARENT) == (int(TRACE, 16), int(SPAN, 16), 1)
    assert parse_traceparent(PARENT.encode()) == (int(TRACE, 16), int(SPAN, 16), 1)


def test_unknown_flags_are_not_passed_on() -> None:
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-ff") == (int(TRACE, 16), int(SPAN, 16), 3)


def test_a_later_version_may_say_more() -> None:
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be") == (int(TRACE, 16), int(SPAN, 16), 1)
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01") is not None


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        b"\xff" * 55,
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0g",
        f"0-{TRACE}-{SPAN}-01",
        f" {PARENT}",
        f"{PARENT}\n",
        f"00-{TRACE[:-1]}\u0664-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01-" + "x" * 1_000,
    ],
)
def test_what_is_no_traceparent_counts_as_absent(value: str | bytes | None) -> None:
    assert parse_traceparent(value) is None


def test_a_tracestate_is_read_over_all_of_its_headers() -> None:
    assert parse_tracestate(["rojo=00f067aa0ba902b7, ,congo=t61rcWkgMzE ", b"tenant@vendor=1"]) == (
        ("rojo", "00f067aa0ba902b7"),
        ("congo", "t61rcWkgMzE"),
        ("tenant@vendor", "1"),
    )


@pytest.mark.parametrize(
    "value",
    [
        "a=1,a=2",
        "A=1",
        "a",
        "a=",
        "=1",
        "a=b=c",
        "a=\u00fc",
        "a=b\n",
        "a=" + "x" * 257,
        "b" * 257 + "=1",
        "@a=1",
        "a@=1",
    ],
)
def test_a_tracestate_with_a_bad_member_is_dropped(value: str) -> None:
    assert parse_tracestate([value]) == ()


def test_a_tracestate_is_bounded() -> None:
    members = [f"m{number}={number}" for number in range(MEMBERS_MAX)]
    assert len(parse_tracestate([",".join(members)])) == MEMBERS_MAX
    assert parse_tracestate([",".join([*members, "more=1"])]) == ()
    assert parse_tracestate([" " * 20_000]) == ()
    long = [(f"m{number}", "v" * 200) for number in range(10)]
    assert format_state(long) == ",".join([f"{key}={value}" for key, value in long[:2]])


def test_headers_tell_of_a_trace_whatever_their_case() -> None:
    found = read_trace([("x", "y"), ("TraceParent", PARENT), ("TRACESTATE", b"a=1")])
    assert found == TraceContext(int(TRACE, 16), int(SPAN, 16), 1, (("a", "1"),))
    assert found.headers() == (("traceparent", PARENT), ("tracestate", "a=1"))
    assert read_trace(found.headers()) == found


def test_two_traceparents_are_none() -> None:
    assert read_trace([("traceparent", PARENT), ("traceparent", PARENT)]) is None
    assert read_trace([("tracestate", "a=1")]) is None


def test_headers_without_the_trace() -> None:
    assert without_trace([("Traceparent", "x"), ("a", "b"), ("tracestate", "y")]) == (("a", "b"),)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["traceparent", "tracestate", "other"]),
            st.none() | st.text(max_size=80) | st.binary(max_size=80) | st.just(PARENT) | st.just("a=1"),
        ),
        max_size=4,
    )
)
def test_whatever_headers_say_reading_them_raises_nothing(pairs: list[tuple[str, str | bytes | None]]) -> None:
    found = read_trace(pairs)
    if found is not None:
        assert len(found.tracestate) <= TRACESTATE_CHARACTERS_MAX
        assert read_trace(found.headers()) == found
