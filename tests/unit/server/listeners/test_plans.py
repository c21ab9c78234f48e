"""What the settings say of listeners, and what is wrong with them."""

import pytest

from hutong.broker.handling.listeners import SecurityProtocol
from hutong.foundation.errors import UsageError
from hutong.server.configuration import loader
from hutong.server.configuration.sections.network import KafkaSettings
from hutong.server.configuration.settings import Address
from hutong.server.listeners.plans import ListenerPlan, planned

PLAIN, TLS = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL


def test_one_listener_the_short_way() -> None:
    kafka = KafkaSettings(listen=Address("10.0.0.1", 9093), protocol="SASL_SSL", advertised=Address("a.example", 1))
    expected = ListenerPlan("SASL_SSL", SecurityProtocol.SASL_SSL, Address("10.0.0.1", 9093), Address("a.example", 1))
    assert planned(kafka) == [expected]


def test_several_listeners_by_protocol_and_by_name() -> None:
    kafka = KafkaSettings(
        listeners=("PLAINTEXT://127.0.0.1:9092,ssl://:9093", "INSIDE://[::1]:9094"),
        advertised_listeners=("SSL://node.example:443",),
        listener_protocols=("inside:ssl",),
    )
    assert planned(kafka) == [
        ListenerPlan("PLAINTEXT", PLAIN, Address("127.0.0.1", 9092)),
        ListenerPlan("SSL", TLS, Address("0.0.0.0", 9093), Address("node.example", 443)),
        ListenerPlan("INSIDE", TLS, Address("::1", 9094)),
    ]
    assert [str(plan) for plan in planned(kafka)][-1] == "INSIDE://[::1]:9094"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"listeners": ("127.0.0.1:9092",)}, "write NAME://HOST:PORT"),
        ({"listeners": ("SSL://h:65536",)}, "write NAME://HOST:PORT"),
        ({"listeners": ("SSL://::1:1",)}, "write NAME://HOST:PORT"),
        ({"listeners": ("INSIDE://h:1",)}, "say its protocol in kafka.listener_protocols"),
        ({"listeners": ("SSL://h:1", "ssl://h:2")}, "has SSL twice"),
        ({"listeners": ("SSL://h:1", "PLAINTEXT://h:1")}, "has h:1 twice"),
        ({"listeners": ("SSL://h:1",), "advertised_listeners": ("PLAINTEXT://h:1",)}, "names PLAINTEXT"),
        ({"listeners": ("A://h:1",), "listener_protocols": ("A:B",)}, "write NAME:PROTOCOL"),
        ({"listeners": tuple(f"L{n}://h:{n}" for n in range(17))}, "more than 16"),
    ],
)
def test_wrong_listeners_are_refused(settings: dict[str, tuple[str, ...]], sentence: str) -> None:
    protocols = tuple(f"L{n}:SSL" for n in range(17))
    with pytest.raises(UsageError, match=sentence) as caught:
        planned(KafkaSettings(**{"listener_protocols": protocols, **settings}))  # type: ignore[arg-type]
    assert caught.value.exit_code == 78


def test_both_ways_at_once_are_refused() -> None:
    flags = {"kafka.listen": "127.0.0.1:1", "kafka.listeners": "PLAINTEXT://127.0.0.1:2"}
    with pytest.raises(UsageError, match="leave one of them out"):
        loader.load(environment={}, flags=flags)
