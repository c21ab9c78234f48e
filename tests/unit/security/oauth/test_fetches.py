"""When keys are fetched: after intervals, after failures with pauses, and rarely for keys that nobody knows."""

from hutong.security.oauth.machine import RETRY_MS_MAX, KeyFetches


def test_a_good_fetch_is_repeated_after_the_interval() -> None:
    fetches = KeyFetches(3_600_000, 10_000, 5)
    assert fetches.due_at_ms == 5
    fetches.begin(5)
    assert fetches.is_fetching
    fetches.ended(100, is_good=True)
    assert fetches.due_at_ms == 3_600_100


def test_pauses_after_failures_grow_to_their_bound() -> None:
    fetches, pauses = KeyFetches(3_600_000, 10_000, 0), []
    for _ in range(20):
        fetches.begin(0)
        fetches.ended(0, is_good=False)
        pauses.append(fetches.due_at_ms)
    assert pauses[:7] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]
    assert pauses[-1] == RETRY_MS_MAX
    fetches.begin(0)
    fetches.ended(0, is_good=True)
    fetches.begin(0)
    fetches.ended(0, is_good=False)
    assert fetches.due_at_ms == 1_000


def test_a_short_interval_bounds_the_pause() -> None:
    fetches = KeyFetches(1_500, 100, 0)
    for _ in range(3):
        fetches.begin(0)
        fetches.ended(0, is_good=False)
    assert fetches.due_at_ms == 1_500


def test_unknown_keys_bring_one_fetch_in_each_interval() -> None:
    fetches = KeyFetches(3_600_000, 10_000, 0)
    assert fetches.key_is_unknown(0)
    fetches.begin(0)
    assert fetches.key_is_unknown(1)
    fetches.ended(2, is_good=True)
    assert not fetches.key_is_unknown(9_999)
    assert fetches.key_is_unknown(10_000)
    fetches.begin(10_000)
    fetches.ended(10_001, is_good=False)
    assert not fetches.key_is_unknown(19_999)
