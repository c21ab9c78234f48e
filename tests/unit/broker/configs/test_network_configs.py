"""The bounds of connections as settings that a running node takes: names, layers, and what they come to."""

from dataclasses import replace
from typing import Any

import pytest

from hutong.broker.configs.network_configs import NODE_KEYS, OF_LISTENERS, connection_limits, overrides_of
from hutong.broker.configs.node_configs import SOURCE_CLUSTER, SOURCE_DEFAULT, SOURCE_NODE, SOURCE_STATIC, NodeConfigs
from hutong.foundation.errors import HutongError, Refused
from hutong.reactor.accept.connection_quotas import ListenerLimits
from hutong.server.configuration.settings import Settings
from hutong.server.configuration.translate import network_configs


class Log:
    """A log in which changes are durable at once."""

    def append(self, key: bytes, value: bytes | None, then: Any) -> None:
        then(None)


def configs(**started_with: str) -> NodeConfigs:
    made = NodeConfigs(1, {})
    made.add(
        NODE_KEYS, {name.replace("_", "."): value for name, value in started_with.items()}, of_listeners=OF_LISTENERS
    )
    made.start(Log())
    return made


def put(made: NodeConfigs, resource: str, **values: str) -> None:
    outcomes: list[HutongError | None] = []
    made.alter(resource, {name.replace("_", "."): value for name, value in values.items()}, outcomes.append)
    assert outcomes == [None]


def test_a_new_node_has_the_bounds_that_are_built_in() -> None:
    settings = Settings()
    assert network_configs(settings) == {}
    limits = connection_limits(configs(), ("PLAINTEXT",))
    assert limits.connections_max == settings.network.max_connections
    assert limits.per_ip_max == settings.network.max_connections_per_ip
    assert limits.listeners == {"PLAINTEXT": ListenerLimits()}


def test_what_is_set_for_the_node_counts_before_what_is_set_for_all() -> None:
    made = configs(max_connections="7")
    told: list[int] = []
    made.on_change.append(lambda: told.append(connection_limits(made, ()).connections_max))
    put(made, "", max_connections="50")
    put(made, "1", max_connections="5")
    assert told == [50, 5]
    assert made.layers_of("max.connections") == [
        ("5", SOURCE_NODE),
        ("50", SOURCE_CLUSTER),
        ("7", SOURCE_STATIC),
        ("20000", SOURCE_DEFAULT),
    ]


def test_a_listener_has_bounds_of_its_own_and_not_the_node_s() -> None:
    made = configs(max_connections="7", listener_name_ssl_max_connection_creation_rate="3")
    put(made, "1", listener_name_ssl_max_connections="2")
    limits = connection_limits(made, ("SSL", "PLAINTEXT"))
    assert limits.listeners == {"SSL": ListenerLimits(2, 3), "PLAINTEXT": ListenerLimits()}
    assert "listener.name.ssl.max.connections" in made.names()
    with pytest.raises(Refused, match="of one node"):
        put(made, "", listener_name_ssl_max_connections="2")
    with pytest.raises(Refused, match="cannot be changed"):
        put(made, "1", listener_name_ssl_max_connections_per_ip="2")


@pytest.mark.parametrize("value", ["many", "-1", "99999999999", ""])
def test_what_is_no_number_of_connections_is_refused(value: str) -> None:
    with pytest.raises(Refused, match="Invalid value"):
        put(configs(), "1", max_connections=value)


def test_overrides_are_addresses_in_numbers() -> None:
    assert overrides_of("") == {}
    assert overrides_of("192.0.2.1:7, 2001:DB8::1:0,[::1]:3") == {"192.0.2.1": 7, "2001:db8::1": 0, "::1": 3}
    for text in ("192.0.2.1", "192.0.2.1:", "example.org:5", "192.0.2.1:-1", "192.0.2.1:5000000000"):
        with pytest.raises(ValueError):
            overrides_of(text)


def test_what_a_node_is_given_is_under_kafka_s_names() -> None:
    network = replace(
        Settings().network,
        max_connections_per_ip=3,
        max_connections_per_ip_overrides=("192.0.2.1:9",),
        listener_max_connections=("SASL_SSL:5",),
    )
    assert network_configs(replace(Settings(), network=network)) == {
        "max.connections.per.ip": "3",
        "max.connections.per.ip.overrides": "192.0.2.1:9",
        "listener.name.sasl_ssl.max.connections": "5",
    }
