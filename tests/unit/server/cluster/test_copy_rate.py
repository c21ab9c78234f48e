"""The rate of copies as a setting of a node that runs."""

from typing import Any

from hutong.broker.configs.node_configs import SOURCE_DEFAULT, SOURCE_STATIC, NodeConfigs
from hutong.cluster.records import PlannedMove
from hutong.foundation.errors import HutongError, Refused
from hutong.server.cluster.copy_rate import DEFAULT, FOLLOWER_NAME, LEADER_NAME, CopyRate
from hutong.server.configuration.settings import Settings


class Log:
    """A log in which changes are durable at once."""

    def append(self, key: bytes, value: bytes | None, then: Any) -> None:
        then(None)


class Rate:
    """The rate of node 1, and how long a kilobyte takes."""

    def __init__(self, started_with: int) -> None:
        self.configs = NodeConfigs(1, {})
        self.rate = CopyRate(1, self.configs, started_with)
        self.configs.start(Log())
        self._now_ms = 0

    def set(self, **values: str) -> HutongError | None:
        """Set these and nothing else: `leader` and `follower`."""
        names = {"leader": LEADER_NAME, "follower": FOLLOWER_NAME}
        outcomes: list[HutongError | None] = []
        try:
            self.configs.alter("", {names[key]: value for key, value in values.items()}, outcomes.append)
        except Refused as refused:
            return refused
        return outcomes[0]

    @property
    def kilobyte_ms(self) -> int:
        self._now_ms += 1_000_000
        self.rate.pace.count(1_000, self._now_ms)
        return self.rate.pace.due_ms(self._now_ms) - self._now_ms


def test_the_rate_is_altered_while_copies_go_on() -> None:
    rate = Rate(2_000)
    assert rate.configs.layers_of(LEADER_NAME) == [("2000", SOURCE_STATIC), (str(DEFAULT), SOURCE_DEFAULT)]
    assert rate.kilobyte_ms == 500
    assert rate.set(leader="10000") is None
    assert rate.kilobyte_ms == 100
    assert isinstance(rate.set(leader="0"), Refused)


def test_the_lesser_of_both_names_counts() -> None:
    rate = Rate(2_000)
    assert rate.set(follower="1000") is None
    assert rate.kilobyte_ms == 1_000
    assert rate.set(leader="500", follower="1000") is None
    assert rate.kilobyte_ms == 2_000
    assert rate.set() is None
    assert rate.kilobyte_ms == 500


def test_a_move_slows_the_nodes_that_take_part_until_it_is_done() -> None:
    rate = Rate(2_000)
    rate.rate.moves_changed([PlannedMove((2, 3), (3, 4), 100), PlannedMove((1, 2), (2, 3))])
    assert rate.kilobyte_ms == 500
    rate.rate.moves_changed([PlannedMove((1, 2), (2, 3), 1_000), PlannedMove((2, 3), (1, 2), 250)])
    assert rate.kilobyte_ms == 4_000
    rate.rate.moves_changed([PlannedMove((1, 2), (2, 3), 1_000_000)])
    assert rate.kilobyte_ms == 500, "a move does not speed up what settings slow down"
    rate.rate.moves_changed([])
    assert rate.kilobyte_ms == 500


def test_a_node_begins_with_the_rate_that_is_built_in() -> None:
    assert Settings().cluster.copied_bytes_per_second_max == DEFAULT
