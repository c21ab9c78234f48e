"""The log of a node's bus: the Kafka client is needed once a durable address is used."""

import sys

import pytest

from hutong.foundation.errors import UsageError
from hutong.server.bus.node_log import NodeLog


def test_a_missing_client_is_told_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hutong.bus.durable.kafka", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)  # an import of it fails as if it were not there
    with pytest.raises(UsageError, match=r"not installed: pip install 'hutong\[durable\]'") as refused:
        NodeLog("127.0.0.1:1").table("t")
    assert refused.value.exit_code == 69
