"""The pace of a search: its share of a processor falls when the loop is late, and grows when it is not."""

from hutong.console.records.searching.pace import PAUSE_MS_MAX, PAUSE_MS_MIN, SHARE_MAX, SHARE_MIN, SearchPace


def test_a_quiet_loop_lets_it_go_faster_up_to_a_bound() -> None:
    pace = SearchPace()
    before_ms = pace.pause_ms(2_000)
    for _ in range(100):
        pace.note_pause(10, 10_800)
    assert pace.share == SHARE_MAX
    assert pace.pause_ms(2_000) == 2 < before_ms


def test_a_busy_loop_slows_it_down_at_once() -> None:
    pace = SearchPace()
    for _ in range(10):
        pace.note_pause(10, 14_000)
    assert pace.share == SHARE_MIN
    assert pace.pause_ms(2_000) == 98


def test_pauses_have_bounds() -> None:
    pace = SearchPace()
    assert pace.pause_ms(0) == PAUSE_MS_MIN
    assert pace.pause_ms(10**9) == PAUSE_MS_MAX
