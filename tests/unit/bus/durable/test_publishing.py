"""A producer that fails for good: its records fail, and the next one has another producer."""

import queue
from collections.abc import Iterator

import pytest

from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.bus.durable.publishing import Publisher
from hutong.bus.durable.records import OutgoingRecord
from hutong.testing import EmbeddedNode

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}
ROUNDS = 5


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings=SECURED, users={"ann": "secret", "bob": "secret"}) as node:
        yield node


@pytest.mark.parametrize("rounds", [1, ROUNDS])
def test_a_user_without_rights_is_answered_each_time(node: EmbeddedNode, rounds: int) -> None:
    # Without the right to write an idempotent producer gets no id, which is fatal for it (KIP-98).
    publisher = Publisher(
        {
            "bootstrap.servers": node.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "bob",
            "sasl.password": "secret",
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
        },
        100,
    )
    outcomes: queue.Queue[Stored | PublishFailed] = queue.Queue()
    for _ in range(rounds):
        publisher.publish(OutgoingRecord("t", None, b"x", []), outcomes.put)
        outcome = outcomes.get(timeout=60)
        assert isinstance(outcome, PublishFailed)
    publisher.close(5)
    with pytest.raises(PublishFailed, match="closed"):
        publisher.publish(OutgoingRecord("t", None, b"x", []), outcomes.put)
