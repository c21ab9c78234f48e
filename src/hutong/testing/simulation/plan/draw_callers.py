"""The callers of a seed's plan, and the service that they call."""

from random import Random
from typing import Final

from hutong.testing.simulation.plan.clients import PlannedBusMember, PlannedCaller, PlannedClient

_CALLERS_MAX: Final = 3
_INSTANCES_MAX: Final = 3
_BUS_MEMBERS_MAX: Final = 3


def service_instances(random: Random) -> int:
    """The instances of the service, 0 for none: a node without services is the rule."""
    return random.choice((0, 0, 1, _INSTANCES_MAX))


def callers(random: Random, *, is_remembered: bool) -> list[PlannedClient]:
    """Programs that call the service over connections."""
    return [
        PlannedCaller(
            name=f"caller-{number}",
            pause_ms=random.choice((50, 200, 1_000)),
            calls_together=random.choice((1, 3, 10)),
            # The shortest ends before some work does, the longest outlives most faults.
            timeout_ms=random.choice((100, 500, 3_000, 10_000)),
            retries=random.choice((0, 2, 16)),
            work_ms=random.choice((0, 0, 20, 1_000)),
            # The greatest fills the window of a connection with a few calls.
            padding_characters=random.choice((0, 2_000, 100_000)),
            first_pause_ms=random.choice((5, 50)),
            first_patience_ms=random.choice((50, 1_000)),
            # Less than a reader asks for at once, and many times as much.
            stream_items=random.choice((0, 0, 20, 1_000)),
            is_remembered=is_remembered,
        )
        for number in range(random.randint(1, _CALLERS_MAX))
    ]


def bridge_settings(random: Random) -> list[tuple[str, str]]:
    """Bounds of the bus's bridge that its clients reach."""
    settings = {
        # The least that may be set; and the default, which only the longest messages reach.
        "max_unsent_bytes": random.choice((65_536, 1_048_576)),
        "max_buffered_messages": random.choice((10, 100)),
        # Shorter than a client may not read, and longer.
        "slow_client_timeout_ms": random.choice((1_000, 30_000)),
    }
    return [(f"bridge.{name}", str(value)) for name, value in settings.items()]


def bus_members(random: Random) -> list[PlannedClient]:
    """Clients of the bridge. One alone hears what it sends itself."""
    return [
        PlannedBusMember(
            name=f"bus-member-{number}",
            pause_ms=random.choice((50, 200, 1_000)),
            messages_together=random.choice((1, 5, 50)),
            timeout_ms=random.choice((100, 3_000)),
            work_ms=random.choice((0, 20, 1_000)),
            # The greatest fills the window of a connection, so that its messages wait in the node.
            padding_characters=random.choice((0, 2_000, 20_000)),
            is_listening=random.random() < 0.7,
            not_reading_ms=random.choice((0, 500, 5_000)),
        )
        for number in range(random.randint(0, _BUS_MEMBERS_MAX))
    ]
