"""Back-off: how it grows, where it stops, what is refused."""

import pytest

from hutong.bus.durable.consume.caution import CautionNote, read_note
from hutong.bus.durable.consume.retry import Retry
from hutong.foundation.errors import UsageError


def test_pauses_double_up_to_the_ceiling() -> None:
    retry = Retry(first_delay=0.1, delay_max=1, jitter=0)
    assert [retry.delay_ms(failures, 0.5) for failures in range(1, 7)] == [100, 200, 400, 800, 1_000, 1_000]
    assert retry.delay_ms(10**9, 0.5) == 1_000


def test_jitter_only_shortens() -> None:
    retry = Retry(first_delay=1, jitter=0.2)
    assert [retry.delay_ms(1, chance) for chance in (0.0, 0.5, 0.999999)] == [1_000, 900, 800]


@pytest.mark.parametrize("factor", [1, 1.0])
def test_a_steady_pause(factor: float) -> None:
    assert Retry(first_delay=0.05, factor=factor, jitter=0).delay_ms(10**12, 0) == 50


def test_no_pause_at_all() -> None:
    assert Retry(first_delay=0).delay_ms(10**12, 0) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"crashes": 0},
        {"first_delay": -1},
        {"first_delay": 20},
        {"delay_max": 10**12},
        {"factor": 0.5},
        {"jitter": 1.1},
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="Retry"):
        Retry(**wrong)  # type: ignore[arg-type]


def test_notes_are_read_back_and_other_texts_are_none() -> None:
    assert read_note(str(CautionNote(32, 2))) == CautionNote(32, 2)
    for text in (
        None,
        "",
        "hutong/1 open",
        "hutong/1 open group=x crashes=1",
        str(CautionNote(1, 1)) + " ",
        "another's",
    ):
        assert read_note(text) is None
