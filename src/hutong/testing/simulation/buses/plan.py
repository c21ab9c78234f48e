"""The plan of a simulation of buses: drawn from its seed before anything happens.

Strategy: most kinds of faults are left out of each plan (swarm testing). Listeners at one address are partly steady,
partly coming and going: a steady one must miss nothing while the others do.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from hutong.bus.clustered.limits import ClusteredLimits
from hutong.testing.simulation.plan.faults import PlannedFault

NODES_MIN: Final = 3
NODES_MAX: Final = 5
BUS_FAULTS: Final = (
    "kill",
    "power",
    "stop",
    "pause",
    "cut",
    "cut_one_way",
    "isolate",
    "slow_link",
    "reset",
    "cut_coordinator",
    "coordinator_outage",
    "lost_session",
)
"""Those kinds of faults that a cluster of buses knows."""
SESSION_MS: Final = 1_500
_MINUTE_US: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class PlannedSender:
    """A program on a node that sends, publishes and requests, a few messages at once, then pauses."""

    name: str
    node: int
    pause_ms: int
    together: int
    padding_characters: int
    timeout_ms: int

    def __str__(self) -> str:
        return (
            f"{self.name} at node-{self.node}: up to {self.together} messages, every {self.pause_ms} ms, "
            f"padding {self.padding_characters}, timeout {self.timeout_ms} ms"
        )


@dataclass(frozen=True, slots=True)
class PlannedListener:
    """A consumer on a node. `stays_ms` is None for one that stays registered; others come and go."""

    name: str
    node: int
    address: str
    stays_ms: int | None
    work_ms: int
    buffered_max: int
    pauses: bool
    local_only: bool

    def __str__(self) -> str:
        stay = "stays" if self.stays_ms is None else f"stays {self.stays_ms} ms"
        return (
            f"{self.name} at node-{self.node} of {self.address}: {stay}, works {self.work_ms} ms, "
            f"buffers {self.buffered_max}{', pauses' * self.pauses}{', local only' * self.local_only}"
        )


@dataclass(frozen=True, slots=True)
class PlannedVerticle:
    """A verticle with high availability, which the first process of a node deploys."""

    name: str
    node: int

    def __str__(self) -> str:
        return f"{self.name}: a verticle of node-{self.node}"


PlannedProgram = PlannedSender | PlannedListener | PlannedVerticle


@dataclass(frozen=True, slots=True)
class PlannedAvailability:
    """High availability: the group of each node, the quorum of each group, and the delay of one way to the entries."""

    groups: tuple[str, ...]
    quorum: int
    delay_ms_max: int

    def __str__(self) -> str:
        return f"groups={self.groups}  quorum={self.quorum}  delay_ms={self.delay_ms_max}"


@dataclass(frozen=True, slots=True)
class BusPlan:
    """Everything that a simulation of buses does not leave to chance while it runs."""

    seed: int
    lasts_us: int
    drifts_ppm: tuple[int, ...]  # one for each node
    news_ms_max: int  # from a change of the membership until a node hears of it
    limits: ClusteredLimits
    clients: tuple[PlannedProgram, ...]
    faults: tuple[PlannedFault, ...]
    availability: PlannedAvailability | None = None

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.drifts_ppm)

    @property
    def recovery_us(self) -> int:
        """The time after a fault until two nodes that it has parted find each other again."""
        limits = self.limits
        ping_ms = limits.ping_interval_ms + limits.ping_reply_ms_max
        again_ms = limits.retry_ms_max + 2 * limits.connect_ms_max
        return (SESSION_MS + ping_ms + again_ms + 2 * self.news_ms_max + 500) * 1_000

    def lines(self) -> list[str]:
        """The plan in a few lines."""
        limits = self.limits
        return [
            f"seed {self.seed}, {self.lasts_us / 1e6:.3f} virtual seconds with faults",
            f"nodes     drift_ppm={self.drifts_ppm}  news_ms={self.news_ms_max}",
            f"limits    ping={limits.ping_interval_ms}  queued_bytes={limits.queued_bytes_max}"
            f"  unsent_bytes={limits.unsent_bytes_max}",
            *([] if self.availability is None else [f"ha        {self.availability}"]),
            *(f"client    {client}" for client in self.clients),
            *(f"fault     {fault}" for fault in self.faults),
        ]


def draw_bus_plan(seed: int, minutes: float, kinds: tuple[str, ...], nodes: int | None = None) -> BusPlan:
    """The plan of a seed. Its number of nodes is drawn, too, where `nodes` is None."""
    random = Random(f"{seed}/buses")
    drawn = random.randint(NODES_MIN, NODES_MAX)
    count = drawn if nodes is None else nodes
    lasts_us = int(minutes * _MINUTE_US)
    addresses = [f"place-{number}" for number in range(random.randint(1, 3))]
    availability, verticles = _draw_availability(seed, count)
    return BusPlan(
        seed,
        lasts_us,
        tuple([random.choice((0, 0, -300, 300)) for _ in range(count)]),
        random.choice((2, 20, 200)),
        _draw_limits(random),
        (*_draw_listeners(random, count, addresses), *_draw_senders(random, count), *verticles),
        _draw_faults(random, lasts_us, kinds),
        availability,
    )


def _draw_availability(seed: int, nodes: int) -> tuple[PlannedAvailability | None, list[PlannedVerticle]]:
    """In half of the plans. With randomness of its own: the other half stays as it was."""
    random = Random(f"{seed}/availability")
    if random.random() < 0.5:
        return None, []
    names = random.choice((["shop"], ["shop"], ["shop", "office"]))
    groups = tuple([random.choice(names) for _ in range(nodes)])
    quorum = random.choice((1, 2, 2, nodes // 2 + 1))
    verticles = [
        PlannedVerticle(f"verticle-{number}", random.randint(1, nodes)) for number in range(random.randint(1, 4))
    ]
    return PlannedAvailability(groups, quorum, random.choice((2, 20, 100))), verticles


def _draw_limits(random: Random) -> ClusteredLimits:
    return ClusteredLimits(
        connect_ms_max=500,
        ping_interval_ms=random.choice((300, 1_000)),
        ping_reply_ms_max=500,
        retry_ms_first=50,
        retry_ms_max=500,
        stable_ms_min=200,
        unknown_node_ms_max=500,
        unsent_bytes_max=random.choice((4_000, 64_000, 1_000_000)),
        queued_bytes_max=random.choice((3_000, 30_000, 1_000_000)),
    )


def _draw_listeners(random: Random, nodes: int, addresses: list[str]) -> list[PlannedListener]:
    listeners = []
    for number in range(random.randint(nodes, 2 * nodes)):
        is_steady = random.random() < 0.5
        listeners.append(
            PlannedListener(
                f"listener-{number}",
                random.randint(1, nodes),
                random.choice(addresses),
                None if is_steady else random.choice((50, 300, 1_000)),
                random.choice((0, 0, 5, 100)),
                random.choice((0, 3, 1_000)),
                random.random() < 0.3,
                random.random() < 0.1,
            )
        )
    return listeners


def _draw_senders(random: Random, nodes: int) -> list[PlannedSender]:
    return [
        PlannedSender(
            f"sender-{number}",
            random.randint(1, nodes),
            random.choice((60, 150, 500)),
            random.choice((1, 3, 8)),
            random.choice((0, 0, 100, 2_000)),
            random.choice((100, 2_000, 10_000)),
        )
        for number in range(random.randint(2, nodes))
    ]


def _draw_faults(random: Random, lasts_us: int, kinds: tuple[str, ...]) -> tuple[PlannedFault, ...]:
    known = [kind for kind in BUS_FAULTS if kind in kinds]
    if not known:
        return ()
    some = random.sample(known, min(len(known), random.randint(1, 3)))
    faults = [
        PlannedFault(
            random.randrange(lasts_us),
            random.choice(some),
            int(10 ** random.uniform(3.5, 6.5)),
            random.getrandbits(32),
        )
        for _ in range(random.choice((0, 1, 2, 3, 5, 8)))
    ]
    return tuple(sorted(faults, key=lambda fault: fault.at_us))
