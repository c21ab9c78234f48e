"""The times of requests: the figures by stage, and the log line about a slow one."""

import logging

import pytest

from hutong.broker.dispatch.request_times import RequestTimes
from hutong.wire.kafka.headers import RequestHeader


def test_a_stage_that_took_no_time_counts_as_zero_when_somebody_looks() -> None:
    times = RequestTimes().of(0)
    for total_us in (100, 200, 300):
        times.local.record(total_us)
        times.total.record(total_us)
    times.queue.record(5_000)
    requests = times.total.count
    assert [times.zeros(stage, requests) for stage in ("queue", "local", "send", "total")] == [2, 0, 3, 0]
    assert times.queue.quantiles((0.5, 0.99), times.zeros("queue", requests)) == [0, 5_120]


def test_requests_of_a_train_are_counted_one_by_one() -> None:
    times = RequestTimes().of(0)
    times.record_together(50, 1_000, 64)
    times.record_together(50, 0, 1)
    assert times.total.count == times.local.count == 65
    assert times.total.sum == 64 * 1_050 + 50
    assert times.remote.count == 64


def test_slow_requests_have_a_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    times = RequestTimes(slow_us=1_000_000)
    header = RequestHeader(0, 9, 1, "the\nclient")
    with caplog.at_level(logging.WARNING, "hutong.requests"):
        for now_us in (0, 100_000, 900_000, 1_000_000):
            times.report_slow(header, "User:al\nice", "192.0.2.1", {"local": 2_000, "remote": 1_500_000}, now_us)
    assert [record.getMessage() for record in caplog.records] == [
        "slow request: Produce version 9 of client 'the\\nclient', 'User:al\\nice' at 192.0.2.1, took 1502 ms "
        "(local 2, remote 1500; 0 more like it before)",
        "slow request: Produce version 9 of client 'the\\nclient', 'User:al\\nice' at 192.0.2.1, took 1502 ms "
        "(local 2, remote 1500; 2 more like it before)",
    ]
    assert times.slow_total == 4
