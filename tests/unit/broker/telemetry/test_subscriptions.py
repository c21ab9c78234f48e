"""The metrics that clients are asked for, by the settings of administrators."""

from collections.abc import Callable
from typing import Any

import pytest

from hutong.broker.configs.metrics_configs import INTERVAL_MS_DEFAULT, MetricsConfigs
from hutong.broker.telemetry.subscription import MetricSubscription
from hutong.broker.telemetry.subscriptions import MetricSubscriptions
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

JAVA = {"client_id": "billing-1", "client_software_name": "apache-kafka-java", "client_software_version": "4.1.0"}


class State:
    """Everything is durable at once."""

    def append(self, key: bytes, value: bytes | None, then: Callable[[Any], None]) -> None:
        then(None)


def subscriptions(**of: dict[str, str]) -> MetricSubscriptions:
    configs = MetricsConfigs()
    configs.start(State())
    found = MetricSubscriptions(configs)
    for name, settings in of.items():
        configs.alter(name, settings, lambda _: None)
    return found


def test_without_a_match_nothing_is_asked_for() -> None:
    assert subscriptions().of(JAVA) == MetricSubscription((), INTERVAL_MS_DEFAULT)
    other = {"match": "client_id=reports-.*", "metrics": "*"}
    assert subscriptions(a=other).of(JAVA) == MetricSubscription((), INTERVAL_MS_DEFAULT)
    assert subscriptions(a={"match": "client_id=billing", "metrics": "*"}).of(JAVA).metrics == ()


def test_all_that_match_are_joined() -> None:
    found = subscriptions(
        a={"match": "client_id=billing-.*, client_software_version=4[.].*", "metrics": "b.,a.", "interval.ms": "9000"},
        b={"metrics": "a.,c.", "interval.ms": "5000"},
        c={"match": "client_software_name=librdkafka", "metrics": "d.", "interval.ms": "100"},
    )
    assert found.of(JAVA) == MetricSubscription(("a.", "b.", "c."), 5000)


def test_a_star_is_all() -> None:
    assert subscriptions(a={"metrics": "a."}, b={"metrics": "*"}).of(JAVA).metrics == ("*",)


def test_changes_count_at_once_and_raise_the_version() -> None:
    found = subscriptions(a={"metrics": "a."})
    version = found.version
    assert found.of(JAVA).metrics == ("a.",)
    found._configs.alter("a", {}, lambda _: None)
    assert found.version > version
    assert found.of(JAVA).metrics == ()


@pytest.mark.parametrize(
    "match",
    ["client_id", "client_id=(", "client=a", "client_id=a,client_id=b", "=a", "client_id=" + "(a{1000}){1000}"],
)
def test_patterns_that_are_refused(match: str) -> None:
    with pytest.raises(Refused) as refused:
        subscriptions(a={"match": match})
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_ids_follow_from_subscription_and_client() -> None:
    one, other = MetricSubscription(("a.",), 100), MetricSubscription(("a.",), 200)
    ids = {one.id_for(b"1"), one.id_for(b"2"), other.id_for(b"1")}
    assert len(ids) == 3
    assert one.id_for(b"1") == MetricSubscription(("a.",), 100).id_for(b"1")
    assert all(-(2**31) <= each < 2**31 for each in ids)
