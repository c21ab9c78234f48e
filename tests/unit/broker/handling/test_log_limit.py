"""One line in each interval, with the number of those that were left out."""

from hutong.broker.handling.log_limit import LOG_INTERVAL_MS, LogLimit


def test_lines_within_an_interval_are_counted_and_left_out() -> None:
    limit = LogLimit()
    assert limit.admit(0) == 0
    assert [limit.admit(now_ms) for now_ms in (0, 1, LOG_INTERVAL_MS - 1)] == [None] * 3
    assert limit.admit(LOG_INTERVAL_MS) == 3
    assert limit.admit(2 * LOG_INTERVAL_MS) == 0
