"""The plan of a simulation: which clients, which faults and which settings, drawn from the seed.

Strategy: everything is drawn before anything happens, so a plan can be shown, and made smaller while it still fails.
Each seed leaves out most kinds of faults and of clients (swarm testing: Groce et al., ISSTA 2012): what is rare
together with everything else is common alone.

Knows nothing of how faults and clients work.
"""

import dataclasses
from dataclasses import dataclass, field
from random import Random
from typing import Final

NODE_FAULTS: Final = ("kill", "power", "stop", "pause")
NETWORK_FAULTS: Final = ("cut", "cut_one_way", "slow_link", "reset")
DISK_FAULTS: Final = ("slow_flush", "failing_flush", "failing_write", "failing_read", "full_disk", "cold_cache")
CLOCK_FAULTS: Final = ("clock_jump",)
FAMILIES: Final = {"node": NODE_FAULTS, "network": NETWORK_FAULTS, "disk": DISK_FAULTS, "clock": CLOCK_FAULTS}
MINUTE_US: Final = 60_000_000
_PRODUCERS_MAX: Final = 4
_READERS_MAX: Final = 3
_TELLERS_MAX: Final = 3
TRANSACTIONAL: Final = "transactional producer"
_MEMBERS_MAX: Final = 4
_SHARE_MEMBERS_MAX: Final = 4
_CLASSIC: Final = "classic member"
_CONSUMER: Final = "consumer member"
# The last is a group whose members change from one protocol to the other one by one (KIP-848).
MEMBER_KINDS: Final = (_CLASSIC, _CONSUMER)
PARTITION_KINDS: Final = ("producer", "keyed producer", "reader")  # clients of one partition
CLIENT_KINDS: Final = (*PARTITION_KINDS, *MEMBER_KINDS, TRANSACTIONAL, "admin", "share member")
_GROUPS_OF_KINDS: Final = ((_CLASSIC,), (_CLASSIC,), (_CONSUMER,), (_CONSUMER,), (_CLASSIC, _CONSUMER))
COMPACT: Final = "compact"
KEPT_FOR_GOOD_MS: Final = str(1_000 * 24 * 60 * 60 * 1_000)
"""For tombstones: longer than all jumps of clocks together."""
KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault and when it begins and ends. `number` picks its victim and its strength."""

    at_us: int
    kind: str
    lasts_us: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind} at {self.at_us / 1e6:.3f} s for {self.lasts_us / 1e6:.3f} s ({self.number})"


@dataclass(frozen=True, slots=True)
class PlannedClient:
    """A client. `partition` is of the topic, `pause_ms` between two rounds of its work."""

    kind: str
    name: str
    topic: str
    partition: int
    pause_ms: int
    # Acks of a producer, isolation level of a reader, place of a share member's group in the plan, or the number of a
    # transactional id.
    option: int
    codec: int = field(default=0, kw_only=True)  # of a producer's batches, as `Compression` has it
    keys: int = field(default=0, kw_only=True)  # of a keyed producer: it has so many

    def __str__(self) -> str:
        return f"{self.name}: {self.kind} of {self.topic}-{self.partition} every {self.pause_ms} ms ({self.option})"


@dataclass(frozen=True, slots=True)
class PlannedMember(PlannedClient):
    """A member of a group, which reads whole topics: `partition` is -1, `option` the isolation level.

    The session timeout counts for members of the classic protocol; the broker has that of the others.
    """

    group: str
    session_ms: int
    rebalance_ms: int
    instance: str  # group.instance.id (KIP-345), empty for none; two may have the same by mistake
    may_stall: bool
    notices_silence: bool  # gives its partitions up after a session without an answer

    def __str__(self) -> str:
        traits = ("may_stall", "notices_silence")
        shown = ", ".join(trait for trait in traits if getattr(self, trait)) or "plain"
        times = f"session {self.session_ms} ms, rebalance {self.rebalance_ms} ms"
        name = f"{self.name} ({self.instance})" if self.instance else self.name
        return f"{name}: {self.kind} of {self.group} reading {self.topic} ({times}, {shown}, {self.option})"


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic to create at the start."""

    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()

    @property
    def is_compacted(self) -> bool:
        return ("cleanup.policy", COMPACT) in self.configs

    def __str__(self) -> str:
        configs = "".join(f", {name}={value}" for name, value in self.configs)
        return f"{self.name} with {self.partitions} partitions{configs}"


@dataclass(frozen=True, slots=True)
class PlannedShareGroup:
    """A share group, of which some clients are members."""

    name: str
    topic: str
    lock_ms: int
    delivery_limit: int

    def __str__(self) -> str:
        return f"{self.name} of {self.topic}: locks of {self.lock_ms} ms, at most {self.delivery_limit} deliveries"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """Settings of all nodes, as `hutong config` names them, and what their machines are like."""

    settings: tuple[tuple[str, str], ...]
    journal: tuple[tuple[str, int], ...]  # bounds of journals, smaller than settings allow
    drift_ppm: int


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Everything that a simulation does not leave to chance while it runs."""

    seed: int
    lasts_us: int
    node: PlannedNode
    topics: tuple[PlannedTopic, ...]
    clients: tuple[PlannedClient, ...]
    faults: tuple[PlannedFault, ...]
    share_groups: tuple[PlannedShareGroup, ...] = ()


def kinds_of(names: str) -> tuple[str, ...]:
    """The kinds that a list such as `disk,pause` names; `all` and `none` are lists, too. Raises ValueError."""
    kinds: list[str] = []
    for name in filter(None, names.split(",")):
        if name == "all":
            kinds += [kind for family in FAMILIES.values() for kind in family]
        elif name in FAMILIES:
            kinds += FAMILIES[name]
        elif any(name in family for family in FAMILIES.values()):
            kinds.append(name)
        elif name != "none":
            raise ValueError(f"there is no fault {name}")
    return tuple(dict.fromkeys(kinds))


def draw_plan(seed: int, minutes: float, kinds: tuple[str, ...]) -> SimulationPlan:
    """The plan of a seed, with faults of these kinds at most."""
    random = Random(f"{seed}/plan")
    lasts_us = int(minutes * MINUTE_US)
    topics: tuple[PlannedTopic, ...] = (PlannedTopic("orders", random.choice((1, 1, 2, 4))),)
    node, clients, faults = _node(random), _clients(random, topics), _faults(random, lasts_us, kinds)
    # A stream of its own: more draws for groups shall not change all else that seeds stand for.
    of_groups = Random(f"{seed}/plan/groups")
    node = dataclasses.replace(node, settings=(*node.settings, *_group_settings(of_groups)))
    clients += _members(of_groups, topics)
    share_groups, members = _share_groups(Random(f"{seed}/plan/share"), topics)
    clients += members
    of_topics = Random(f"{seed}/plan/topics")
    node = dataclasses.replace(node, settings=(*node.settings, *_topic_settings(of_topics)))
    clients += _admins(of_topics)
    of_records = Random(f"{seed}/plan/records")
    clients = [_with_codec(of_records, client) for client in clients]
    node = dataclasses.replace(node, settings=(*node.settings, *_cleaner_settings(of_records)))
    more_topics, more_clients = _bounded_topics(of_records)
    ledgers, writers = _transactional(Random(f"{seed}/plan/transactions"))
    topics = (*topics, *more_topics, *ledgers)
    clients += [*more_clients, *writers]
    return SimulationPlan(seed, lasts_us, node, topics, tuple(clients), tuple(faults), tuple(share_groups))


def _transactional(random: Random) -> tuple[tuple[PlannedTopic, ...], list[PlannedClient]]:
    """Transactional producers with a topic of their own, and readers of it. Two instances may have one id."""
    if random.random() < 0.5:
        return (), []
    topic = PlannedTopic("ledger", random.choice((1, 2, 3)))
    clients = [
        PlannedClient(
            TRANSACTIONAL, f"teller-{number}", topic.name, -1, random.choice((20, 200, 1_000)), random.choice((0, 0, 1))
        )
        for number in range(random.randint(1, _TELLERS_MAX))
    ]
    clients += [
        PlannedClient("reader", f"auditor-{level}", topic.name, random.randrange(topic.partitions), 0, level)
        for level in (0, 1)
    ]
    return (topic,), clients


def _node(random: Random) -> PlannedNode:
    settings = {
        "log.segment_bytes": str(MEBIBYTE),
        "log.max_message_bytes": str(64 * KIBIBYTE),
        "log.recycled_bytes": str(KIBIBYTE * random.choice((0, 512, 4_096))),
        "log.fill_segments": random.choice(("true", "false")),
        "log.acknowledgement_timeout_ms": str(random.choice((200, 3_000, 60_000))),
    }
    segment_bytes = KIBIBYTE * random.choice((128, 128, 256, 1_024))
    journal = {
        "segment_bytes": segment_bytes,
        "batch_bytes_max": segment_bytes,
        "preallocate_bytes": KIBIBYTE * random.choice((16, 128, 1_024)),
        "region_bytes": KIBIBYTE * random.choice((64, 64, 256)),
        "cached_bytes_max": KIBIBYTE * random.choice((128, 512)),
        "dirty_bytes_max": KIBIBYTE * random.choice((64, 256, 16_384)),
        "lazy_flush_interval_ms": random.choice((1, 50, 1_000)),
        "checkpoint_interval_ms": random.choice((100, 1_000, 60_000)),
        "checkpoint_interval_bytes": KIBIBYTE * random.choice((32, 1_024)),
        "index_interval_bytes": KIBIBYTE * random.choice((1, 32)),
        "index_distance_bytes": KIBIBYTE * random.choice((4, 1_024)),
        "indexes_loaded_max": random.choice((1, 8)),
        "segments_open_max": random.choice((4, 64)),
        "read_ahead_bytes": KIBIBYTE * random.choice((4, 256)),
    }
    return PlannedNode(tuple(settings.items()), tuple(journal.items()), random.choice((0, 0, -200, 200, 5_000)))


def _clients(random: Random, topics: tuple[PlannedTopic, ...]) -> list[PlannedClient]:
    clients = []
    for number in range(random.randint(1, _PRODUCERS_MAX)):
        topic = random.choice(topics)
        partition, acks = random.randrange(topic.partitions), random.choice((-1, -1, 1))
        pause_ms = random.choice((50, 500, 500, 2_000))
        clients.append(PlannedClient("producer", f"producer-{number}", topic.name, partition, pause_ms, acks))
    for number in range(random.randint(1, _READERS_MAX)):
        topic = random.choice(topics)
        partition, level = random.randrange(topic.partitions), random.choice((0, 1))
        clients.append(PlannedClient("reader", f"reader-{number}", topic.name, partition, 0, level))
    return clients


def _group_settings(random: Random) -> list[tuple[str, str]]:
    """Times of groups close to those of faults and of requests."""
    session_ms, interval_ms = random.choice((2_000, 3_000, 6_000)), random.choice((300, 1_000))
    settings = {
        "min_session_timeout_ms": 1_000,
        "initial_rebalance_delay_ms": random.choice((0, 200, 3_000)),
        "consumer_min_session_timeout_ms": session_ms,
        "consumer_session_timeout_ms": session_ms,
        "consumer_min_heartbeat_interval_ms": interval_ms,
        "consumer_heartbeat_interval_ms": interval_ms,
        "consumer_assignment_interval_ms": random.choice((0, 1_000)),
    }
    return [(f"group.{name}", str(value)) for name, value in settings.items()]


def _members(random: Random, topics: tuple[PlannedTopic, ...]) -> list[PlannedMember]:
    members = []
    for number in range(random.choice((0, 0, 1, 1, 2))):
        kinds, topic = random.choice(_GROUPS_OF_KINDS), random.choice(topics)
        level, session_ms = random.choice((0, 1)), random.choice((2_000, 4_000, 6_000))
        rebalance_ms, statics = random.choice((1_000, 3_000, 6_000)), random.choice((0, 0, 0.7))
        members += [
            PlannedMember(
                kind=random.choice(kinds),
                name=f"member-{number}-{place}",
                topic=topic.name,
                partition=-1,
                pause_ms=random.choice((20, 200, 1_000)),
                option=level,
                group=f"group-{number}",
                session_ms=session_ms,
                rebalance_ms=rebalance_ms,
                instance=f"instance-{number}-{random.choice((place, place, place // 2))}"
                if random.random() < statics
                else "",
                may_stall=random.random() < 0.5,
                notices_silence=random.random() < 0.5,
            )
            for place in range(random.randint(1, _MEMBERS_MAX))
        ]
    return members


def _share_groups(
    random: Random, topics: tuple[PlannedTopic, ...]
) -> tuple[list[PlannedShareGroup], list[PlannedClient]]:
    groups, members = [], []
    for number in range(random.choice((0, 0, 1, 1, 2))):
        topic, lock_ms, limit = random.choice(topics).name, random.choice((15_000, 30_000)), random.choice((2, 5, 10))
        groups.append(PlannedShareGroup(f"tasks-{number}", topic, lock_ms, limit))
        for place in range(random.randint(1, _SHARE_MEMBERS_MAX)):
            pause_ms = random.choice((10, 100, 1_000))
            members.append(PlannedClient("share member", f"worker-{number}-{place}", topic, -1, pause_ms, number))
    return groups, members


def _topic_settings(random: Random) -> list[tuple[str, str]]:
    return [("log.retention_check_interval_ms", random.choice(("1000", "300000")))]


def _admins(random: Random) -> list[PlannedClient]:
    pauses_ms = [random.choice((20, 200, 1_000)) for _ in range(random.choice((0, 0, 1, 1, 2)))]
    return [PlannedClient("admin", f"admin-{place}", "", -1, pause_ms, 0) for place, pause_ms in enumerate(pauses_ms)]


def _with_codec(random: Random, client: PlannedClient) -> PlannedClient:
    codec = random.choice((0, 0, 0, 0, 1, 2, 3, 4))
    return dataclasses.replace(client, codec=codec) if client.kind == "producer" else client


def _cleaner_settings(random: Random) -> list[tuple[str, str]]:
    return [("log.cleaner_backoff_ms", random.choice(("100", "2000", "15000")))]


def _bounded_topics(random: Random) -> tuple[list[PlannedTopic], list[PlannedClient]]:
    """Topics that lose records: the oldest, or those whose keys have newer ones."""
    topics: list[PlannedTopic] = []
    clients: list[PlannedClient] = []
    # Files are closed soon, as nothing in an open one is removed.
    closing = [("segment.bytes", random.choice(("20000", "1048576"))), ("segment.ms", random.choice(("1000", "60000")))]
    if random.random() < 0.3:
        topics.append(PlannedTopic("events", 1, (*closing, ("retention.bytes", random.choice(("10000", "100000"))))))
        clients.append(PlannedClient("producer", "producer-of-events", "events", 0, random.choice((50, 500)), -1))
        clients.append(PlannedClient("reader", "reader-of-events", "events", 0, 0, 0))
    if random.random() < 0.4:
        kept_ms, ratio = random.choice(("0", "1000", KEPT_FOR_GOOD_MS)), random.choice(("0", "0.5"))
        cleaning = (("cleanup.policy", COMPACT), ("delete.retention.ms", kept_ms), ("min.cleanable.dirty.ratio", ratio))
        topics.append(PlannedTopic("accounts", 1, (*closing, *cleaning)))
        for number in range(random.randint(1, 2)):
            name, pause_ms, keys = f"keeper-{number}", random.choice((50, 500)), random.choice((1, 5, 50))
            keeper = PlannedClient("keyed producer", name, "accounts", 0, pause_ms, -1, keys=keys)
            clients.append(keeper)
    return topics, clients


def _faults(random: Random, lasts_us: int, kinds: tuple[str, ...]) -> list[PlannedFault]:
    chosen = [kind for kind in kinds if random.random() < 0.4]
    if not chosen:
        return []
    count = random.choice((2, 5, 12))
    faults = []
    for _ in range(count):
        # Short ones as often as long ones: timeouts of all sizes have to meet them.
        length_us = int(10 ** random.uniform(3, 7.2))  # a millisecond to 16 s
        at_us = random.randrange(lasts_us)
        faults.append(PlannedFault(at_us, random.choice(chosen), length_us, random.getrandbits(32)))
    return sorted(faults, key=lambda fault: fault.at_us)
