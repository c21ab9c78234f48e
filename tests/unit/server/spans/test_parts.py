"""The nodes that keep spans: those with a console, and those whose spans a console elsewhere shows."""

import pytest

from hutong.server.configuration.loader import load
from hutong.server.monitoring.monitor_part import MonitorPart
from hutong.server.serving import console_parts

LISTEN, TRACING = {"console.listen": "127.0.0.1:0"}, {"console.tracing": "true"}
CLUSTER = {"cluster.coordinator": "zk://127.0.0.1:2181/h"}


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({}, []),
        (CLUSTER, []),
        (TRACING, []),
        (TRACING | CLUSTER, ["SpanPart"]),
        (LISTEN, ["SpanPart", "ConsolePart"]),
        (LISTEN | {"console.log": "kafka://other:9092"}, ["ConsolePart"]),
    ],
)
def test_the_parts_of_a_console(flags: dict[str, str], names: list[str]) -> None:
    settings = load(environment={}, flags=flags).settings
    assert [type(part).__name__ for part in console_parts(settings, MonitorPart(settings))] == names
