"""Spans that are kept for the console: within bounds, of sampled traces, and only where somebody asks."""

from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from hutong.tracing import Tracing
from hutong.tracing.kept import (
    AGE_MS_MAX,
    ATTRIBUTES_MAX,
    BYTES_MAX,
    SPANS_MAX,
    TEXT_CHARACTERS_MAX,
    KeptSpan,
    KeptSpans,
)


def span(number: int, *, trace: int = 1, begin_ns: int = 0, end_ns: int = 1, name: str = "n") -> KeptSpan:
    return KeptSpan(trace, number, None, name, "client", begin_ns, end_ns, None, ())


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    yield provider
    provider.shutdown()


def test_a_trace_is_told_in_the_order_of_time() -> None:
    kept = KeptSpans()
    for each in (span(1, begin_ns=5), span(2, begin_ns=3), span(3, trace=2)):
        kept.add(each)
    found, is_cut = kept.of_traces({1}, 10)
    assert ([each.span_id for each in found], is_cut) == ([2, 1], False)
    assert kept.of_traces({1}, 1)[1]
    assert kept.of_traces({9}, 1) == ([], False)
    assert [each.span_id for each in kept.of_traces({1, 2}, 10)[0]] == [3, 2, 1]


def test_the_oldest_give_way_by_number() -> None:
    kept = KeptSpans()
    for number in range(SPANS_MAX + 3):
        kept.add(span(number))
    assert (len(kept), kept.dropped_total) == (SPANS_MAX, 3)
    assert kept.of_traces({1}, 1)[0][0].span_id == 3


def test_the_oldest_give_way_by_bytes() -> None:
    kept = KeptSpans()
    for number in range(10):
        kept.add(span(number, name="x" * (BYTES_MAX // 5)))
    assert kept.size_bytes <= BYTES_MAX
    assert len(kept) == 4


def test_the_oldest_give_way_by_age() -> None:
    kept = KeptSpans()
    kept.add(span(1, end_ns=1))
    kept.add(span(2, end_ns=1 + AGE_MS_MAX * 1_000_000))
    assert len(kept) == 2
    kept.add(span(3, end_ns=2 + AGE_MS_MAX * 1_000_000))
    assert [each.span_id for each in kept.of_traces({1}, 10)[0]] == [2, 3]


def test_nothing_is_kept_until_somebody_asks(provider: TracerProvider) -> None:
    tracing = Tracing(provider)
    with tracing.sending("orders"):
        pass
    assert len(tracing.kept) == 0
    tracing.kept.begin()
    with tracing.sending("orders"):
        pass
    assert len(tracing.kept) == 1


def test_what_is_not_sampled_is_not_kept() -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    tracing = Tracing(provider)
    tracing.kept.begin()
    with tracing.sending("orders"):
        pass
    assert len(tracing.kept) == 0
    provider.shutdown()


def test_a_span_is_cut_to_its_bounds_and_tells_its_failure(provider: TracerProvider) -> None:
    tracing = Tracing(provider)
    tracing.kept.begin()
    with pytest.raises(KeyError), tracing.sending("x" * 1_000), provider.get_tracer("t").start_as_current_span("own"):
        raise KeyError("y" * 1_000)
    (found,) = [each for each in tracing.kept._spans if each.name.startswith("send")]
    assert len(found.name) == TEXT_CHARACTERS_MAX >= len(found.error or "")
    assert (found.error or "").startswith("KeyError: ")
    assert len(found.attributes) <= ATTRIBUTES_MAX
    assert all(len(value) <= TEXT_CHARACTERS_MAX for _, value in found.attributes)
    assert found.end_ns >= found.begin_ns
