"""The rate of copies as a setting of a node that runs."""

from typing import Any

from hutong.broker.configs.node_configs import SOURCE_DEFAULT, SOURCE_STATIC, NodeConfigs
from hutong.foundation.errors import HutongError, Refused
from hutong.server.cluster.copy_rate import DEFAULT, NAME, copy_pace
from hutong.server.configuration.settings import Settings


class Log:
    """A log in which changes are durable at once."""

    def append(self, key: bytes, value: bytes | None, then: Any) -> None:
        then(None)


def alter(configs: NodeConfigs, value: str) -> HutongError | None:
    outcomes: list[HutongError | None] = []
    try:
        configs.alter("", {NAME: value}, outcomes.append)
    except Refused as refused:
        return refused
    return outcomes[0]


def test_the_rate_is_altered_while_copies_go_on() -> None:
    configs = NodeConfigs(1, {})
    pace = copy_pace(configs, 2_000)
    configs.start(Log())
    assert configs.layers_of(NAME) == [("2000", SOURCE_STATIC), (str(DEFAULT), SOURCE_DEFAULT)]
    pace.count(1_000, 0)
    assert pace.due_ms(0) == 500
    assert alter(configs, "10000") is None
    pace.count(1_000, 0)
    assert pace.due_ms(0) == 100
    assert isinstance(alter(configs, "0"), Refused)


def test_a_node_begins_with_the_rate_that_is_built_in() -> None:
    assert Settings().cluster.copied_bytes_per_second_max == DEFAULT
