"""Rates that are kept by waiting: one bucket for each rate and those who share it.

Strategy: a bucket holds what may be used at once, at most a window's worth, and fills at the quota's rate. Use may
overdraw it; the debt divided by the rate is how long the client waits. So a client that keeps within its quota over the
window never waits, as with Kafka's sampled rates, and a bucket needs no samples. What has not been used for a
window is full, and a full bucket is as good as none: those are dropped when there are many.

Knows nothing of requests, entities or clocks: amounts and times are given.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

BUCKETS_MAX: Final = 10_000
THROTTLE_MS_MAX: Final = 10 * 60 * 1000


class Bucket:
    """The unused part of one quota. `credit` is at most `rate` times the window; below 0 it is debt."""

    __slots__ = ("credit", "rate", "updated_ms")

    def __init__(self, rate: float, credit: float, now_ms: int) -> None:
        self.rate = rate
        self.credit = credit
        self.updated_ms = now_ms


class Buckets:
    """All buckets of a node. A window is `window_ms` long."""

    def __init__(self, window_ms: int, buckets_max: int = BUCKETS_MAX) -> None:
        self._window_ms = window_ms
        self._buckets_max = buckets_max
        self._buckets: dict[Hashable, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def burst(self, rate: float) -> float:
        """The amount that a rate per second allows in one window."""
        return rate * self._window_ms / 1000

    def use(self, key: Hashable, rate: float, amount: float, now_ms: int) -> int:
        """Note that `amount` was used of a quota of `rate` per second; returns for how many ms to wait."""
        bucket = self._buckets.get(key)
        if bucket is None:
            self._make_room(now_ms)
            bucket = self._buckets[key] = Bucket(rate, self.burst(rate), now_ms)
        elif bucket.rate != rate:  # the quota was changed: what was left or owed of a window stays so, by share
            bucket.credit *= rate / bucket.rate
            bucket.rate = rate
        self._fill(bucket, now_ms)
        bucket.credit -= amount
        return _wait_ms(bucket)

    def use_unless_owed(self, key: Hashable, rate: float, amount: float, now_ms: int) -> int:
        """The same, but nothing is used while there is a debt: then for how many ms to wait before asking again."""
        wait_ms = self.use(key, rate, 0, now_ms)
        # A refused use must not deepen the debt: a client that asks again and again would never be let in.
        if not wait_ms:
            self._buckets[key].credit -= amount
        return wait_ms

    def _fill(self, bucket: Bucket, now_ms: int) -> None:
        earned = bucket.rate * (now_ms - bucket.updated_ms) / 1000
        bucket.credit = min(self.burst(bucket.rate), bucket.credit + earned)
        bucket.updated_ms = now_ms

    def _make_room(self, now_ms: int) -> None:
        """Drop full buckets, and if there is none the one that was made first."""
        if len(self._buckets) < self._buckets_max:
            return
        for bucket in self._buckets.values():
            self._fill(bucket, now_ms)
        self._buckets = {
            key: bucket for key, bucket in self._buckets.items() if bucket.credit < self.burst(bucket.rate)
        }
        if len(self._buckets) >= self._buckets_max:
            # Every bucket is in use. The oldest loses its debt: a bounded table matters more than one client's pause.
            del self._buckets[next(iter(self._buckets))]

    def check_invariants(self) -> None:
        assert len(self._buckets) <= self._buckets_max
        for bucket in self._buckets.values():
            assert bucket.credit <= self.burst(bucket.rate)


def _wait_ms(bucket: Bucket) -> int:
    """Until nothing is owed."""
    if bucket.credit >= 0:
        return 0
    # At least 1 ms, since 0 means that nothing is owed. At most ten minutes, so that a huge request delays no client
    # for hours.
    return min(THROTTLE_MS_MAX, max(1, round(-bucket.credit / bucket.rate * 1000)))
