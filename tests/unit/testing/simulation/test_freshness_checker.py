"""The checker of stale reads: what was acknowledged a while before a question must be in its answer."""

from hutong.testing.simulation.checkers.freshness_checker import check_freshness
from hutong.testing.simulation.history import EndSeen, SimulationHistory, ValueAcknowledged
from hutong.testing.simulation.world import World

STALE_US = 1_500_000
PLACE = ("orders", 0)


def errors_of(asked_us: int, end: int, stale_us_max: int | None = STALE_US) -> list[str]:
    """Of a reader that hears of this end, where offsets 0 and 1 were acknowledged at 1 s and 2 s."""
    history = SimulationHistory(World(1), stale_us_max)
    for offset in (0, 1):
        history.add(ValueAcknowledged((offset + 1) * 1_000_000, "producer-0", PLACE, b"v", offset))
    history.add(EndSeen(asked_us + 9_000_000, asked_us, "reader-0", PLACE, end))
    return check_freshness(history)


def test_a_read_may_be_as_old_as_a_lease_and_no_older() -> None:
    assert not errors_of(1_000_000 + STALE_US - 1, 0)
    assert not errors_of(2_000_000 + STALE_US - 1, 1)
    assert not errors_of(2_000_000 + STALE_US, 2)
    assert errors_of(2_000_000 + STALE_US, 1) == [
        "reader-0 heard that orders-0 ends at 1, although offset 1 was acknowledged 1.5 s before it asked"
    ]


def test_one_node_has_no_lease() -> None:
    assert not errors_of(9_000_000, 0, stale_us_max=None)
