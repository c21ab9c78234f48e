"""Durations of requests, by API and stage as in Kafka's metrics, and a line in the log for a slow request.

Strategy: the stages are histograms, made when an API is first used. Most requests are answered at once: those cost two
readings of the clock and two counts, and Produce requests that are taken together no more than one of them. A stage
that took no time is not counted when it happens: what is missing to the number of requests is zeros, added when
somebody looks.

    queue           received, but not begun: too much of its connection was under way
    local           decoded, handled and, where it is answered at once, encoded
    remote          waiting for others: the disk, a group, data, the client's own wait
    throttle        the wait that its client was given for its quota
    response_queue  ready, but not given to the kernel
    send            given, but not taken: its client does not read (counted for the last request before the pause)
    total           from the beginning of queue to the end of response_queue

Knows nothing of what requests do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hutong.broker.apis import BROKER_APIS
from hutong.broker.handling.log_limit import LogLimit
from hutong.foundation.histograms import Histogram
from hutong.wire.kafka.registry import APIS

if TYPE_CHECKING:
    from hutong.wire.kafka.headers import RequestHeader

STAGES: Final = ("queue", "local", "remote", "throttle", "response_queue", "send", "total")
SHOWN_CHARACTERS_MAX: Final = 100  # of names, which clients choose: they may have line breaks in them
NEVER_SLOW_US: Final = 1 << 62
_log = logging.getLogger("hutong.requests")


class ApiTimes:
    """The histograms of one API, in microseconds."""

    __slots__ = (*STAGES, "api_key", "is_long_poll")

    def __init__(self, api_key: int) -> None:
        self.api_key = api_key
        self.is_long_poll = BROKER_APIS[api_key].is_long_poll
        self.queue = Histogram()
        self.local = Histogram()
        self.remote = Histogram()
        self.throttle = Histogram()
        self.response_queue = Histogram()
        self.send = Histogram()
        self.total = Histogram()

    def record_together(self, local_us: int, remote_us: int, requests: int) -> None:
        """Requests that were handled and answered together."""
        self.local.record_many(local_us, requests)
        if remote_us:
            self.remote.record_many(remote_us, requests)
        self.total.record_many(local_us + remote_us, requests)

    def zeros(self, stage: str, requests: int) -> int:
        """The number of requests that a stage took no time of, and did not count."""
        counted: Histogram = getattr(self, stage)
        return max(0, requests - counted.count)


class RequestTimes:
    """The times of all APIs. A request that takes `slow_us` or more is logged, one in each second."""

    def __init__(self, slow_us: int = NEVER_SLOW_US) -> None:
        self.slow_us = slow_us
        self.slow_total = 0
        self._of: dict[int, ApiTimes] = {}
        self._log_limit = LogLimit()

    def of(self, api_key: int) -> ApiTimes:
        times = self._of.get(api_key)
        if times is None:
            times = self._of[api_key] = ApiTimes(api_key)
        return times

    @property
    def all(self) -> Mapping[int, ApiTimes]:
        """The times of every API that was used."""
        return self._of

    def report_slow(
        self, header: RequestHeader, principal: object, address: str, stages_us: Mapping[str, int], now_us: int
    ) -> None:
        """A request was slow: one line, if there was none in this second."""
        self.slow_total += 1
        skipped = self._log_limit.admit(now_us // 1000)
        if skipped is None:
            return
        _log.warning(
            "slow request: %s version %d of client %r, %r at %s, took %d ms (%s; %d more like it before)",
            APIS[header.api_key].name,
            header.api_version,
            None if header.client_id is None else header.client_id[:SHOWN_CHARACTERS_MAX],
            str(principal)[:SHOWN_CHARACTERS_MAX],
            address,
            sum(stages_us.values()) // 1000,
            ", ".join(f"{stage} {us // 1000}" for stage, us in stages_us.items()),
            skipped,
        )
