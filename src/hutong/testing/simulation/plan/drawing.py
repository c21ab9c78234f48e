"""The plan of a seed: settings, topics, clients and faults, all drawn before anything happens.

Strategy: each seed leaves out most kinds of faults and of clients (swarm testing: Groce et al., ISSTA 2012): what is
rare together with everything else is common alone. Each part of a plan has a random stream of its own, so more draws in
one part do not change all else that seeds stand for.
"""

import dataclasses
from random import Random
from typing import Final

from hutong.testing.simulation.plan import (
    draw_aimed,
    draw_callers,
    draw_clients,
    draw_cluster,
    draw_elections,
    draw_outages,
    draw_temporary,
)
from hutong.testing.simulation.plan.faults import (
    AIMED_FAULTS,
    CLUSTER_FAULTS,
    FAMILIES,
    LATER_AIMED_FAULTS,
    WIDE_AIMED_FAULTS,
    WIDE_NODES_MIN,
    PlannedFault,
)
from hutong.testing.simulation.plan.plan import COMPACT, PlannedNode, PlannedTopic, SimulationPlan

MINUTE_US: Final = 60_000_000
KEPT_FOR_GOOD_MS: Final = str(1_000 * 24 * 60 * 60 * 1_000)
"""For tombstones: longer than all jumps of clocks together."""
_RELAPSES_SHARE: Final = 0.3  # of plans: faults that come once are as common
_KIBIBYTE: Final = 1 << 10
_MEBIBYTE: Final = 1 << 20
_Settings = list[tuple[str, str]]


def draw_plan(seed: int, minutes: float, kinds: tuple[str, ...], nodes: int = 1) -> SimulationPlan:
    """The plan of a seed, with faults of these kinds at most, for one node or a cluster."""
    of_several = (*CLUSTER_FAULTS, *FAMILIES["aimed"])
    plan = _plan_of_a_node(seed, minutes, tuple(kind for kind in kinds if kind not in of_several))
    if nodes == 1:
        return draw_temporary.with_temporary_topics(Random(f"{seed}/plan/temporary"), plan, kinds)
    plan = draw_cluster.with_cluster(Random(f"{seed}/plan/cluster"), plan, kinds, nodes)
    plan = draw_cluster.with_movers(Random(f"{seed}/plan/moves"), plan)
    hasty = draw_clients.with_haste(Random(f"{seed}/plan/haste"), plan.clients)
    plan = dataclasses.replace(plan, clients=tuple(hasty))
    plan = draw_elections.with_elections(Random(f"{seed}/plan/elections"), plan, kinds)
    wide = WIDE_AIMED_FAULTS if nodes >= WIDE_NODES_MIN else ()
    aims = (("aim", AIMED_FAULTS, 0.3), ("later aim", LATER_AIMED_FAULTS, 0.1), ("wide aim", wide, 0.2))
    for name, these, share in aims:
        possible = [kind for kind in these if kind in kinds]
        aimed = draw_aimed.with_aim(Random(f"{seed}/plan/{name}"), plan, possible, share)
        if aimed is not plan:
            return aimed
    return plan


def _plan_of_a_node(seed: int, minutes: float, kinds: tuple[str, ...]) -> SimulationPlan:

    def stream(name: str) -> Random:
        return Random(f"{seed}/plan{name}")

    common, of_groups, of_topics = stream(""), stream("/groups"), stream("/topics")
    of_records, of_transactions = stream("/records"), stream("/transactions")
    lasts_us = int(minutes * MINUTE_US)
    orders = PlannedTopic("orders", common.choice((1, 1, 2, 4)))
    settings, journal, drift_ppm = _node_settings(common), _journal_bounds(common), _drift_ppm(common)
    clients = draw_clients.producers_and_readers(common, orders)
    faults = _faults(common, lasts_us, kinds)
    settings += _group_settings(of_groups)
    clients += draw_clients.members(of_groups, orders)
    share_groups, share_members = draw_clients.share_groups(stream("/share"), orders)
    settings += _topic_settings(of_topics)
    clients += [*share_members, *draw_clients.admins(of_topics)]
    clients = draw_clients.with_codecs(of_records, clients)
    settings += _cleaner_settings(of_records)
    bounded = _bounded_topics(of_records)
    ledgers = _ledgers(of_transactions)
    clients += [*draw_clients.of_bounded_topics(of_records, bounded), *draw_clients.tellers(of_transactions, ledgers)]
    of_processors = stream("/processors")
    targets = _targets(of_processors)
    clients += draw_clients.processors(of_processors, (orders, *ledgers), targets)
    of_calls, of_bus = stream("/calls"), stream("/bus")
    remembers_calls = False
    if instances := draw_callers.service_instances(of_calls):
        remembers_calls = stream("/memory").random() < 0.5
        settings += draw_callers.bridge_settings(of_bus)
        clients += [*draw_callers.callers(of_calls, is_remembered=remembers_calls), *draw_callers.bus_members(of_bus)]
    of_balances = stream("/balances")
    balances = _balances(of_balances)
    clients += [*draw_clients.keyed_tellers(of_balances, balances), *draw_clients.keepers(stream("/kept"), orders)]
    clients = draw_clients.with_sizes(stream("/sizes"), clients)
    plan = SimulationPlan(
        seed,
        lasts_us,
        PlannedNode(
            tuple(settings),
            journal,
            drift_ppm,
            *_state_bounds(stream("/state")),
            instances,
            remembers_calls,
            _flush_us(stream("/disk")),
        ),
        (orders, *bounded, *ledgers, *targets, *balances),
        tuple(clients),
        tuple(faults),
        tuple(share_groups),
    )
    return draw_outages.with_outages(stream("/outages"), plan, kinds)


def _node_settings(random: Random) -> _Settings:
    settings = {
        "log.segment_bytes": str(_MEBIBYTE),
        "log.max_message_bytes": str(64 * _KIBIBYTE),
        # No file is used again, a few are, or all are.
        "log.recycled_bytes": str(_KIBIBYTE * random.choice((0, 512, 4_096))),
        "log.fill_segments": random.choice(("true", "false")),
        # Shorter than a slow flush, close to the timeout of clients, longer than any fault.
        "log.acknowledgement_timeout_ms": str(random.choice((200, 3_000, 60_000))),
    }
    return [*settings.items()]


def _journal_bounds(random: Random) -> tuple[tuple[str, int], ...]:
    """Small ones, so that the end of a file is as common as a record."""
    segment_bytes = _KIBIBYTE * random.choice((128, 128, 256, 1_024))
    bounds = {
        "segment_bytes": segment_bytes,
        # As large as a file: a batch of the greatest size fits exactly.
        "batch_bytes_max": segment_bytes,
        "preallocate_bytes": _KIBIBYTE * random.choice((16, 128, 1_024)),
        "region_bytes": _KIBIBYTE * random.choice((64, 64, 256)),
        "cached_bytes_max": _KIBIBYTE * random.choice((128, 512)),
        # From one region to far more than is ever dirty: then only time makes the journal flush.
        "dirty_bytes_max": _KIBIBYTE * random.choice((64, 256, 16_384)),
        "lazy_flush_interval_ms": random.choice((1, 50, 1_000)),
        "checkpoint_interval_ms": random.choice((100, 1_000, 60_000)),
        "checkpoint_interval_bytes": _KIBIBYTE * random.choice((32, 1_024)),
        "index_interval_bytes": _KIBIBYTE * random.choice((1, 32)),
        "index_distance_bytes": _KIBIBYTE * random.choice((4, 1_024)),
        # One: each reader of an old file drives the other's index out.
        "indexes_loaded_max": random.choice((1, 8)),
        "segments_open_max": random.choice((4, 64)),
        "read_ahead_bytes": _KIBIBYTE * random.choice((4, 256)),
    }
    return tuple(bounds.items())


def _state_bounds(random: Random) -> tuple[int, int]:
    """Of garbage and of a slice: topics are compacted at almost each record, a few times, or never, as usual."""
    return random.choice((256, 4 * _KIBIBYTE, _MEBIBYTE)), random.choice((1, 512, 256 * _KIBIBYTE))


def _drift_ppm(random: Random) -> int:
    # A bad crystal is wrong by 200 ppm; 5,000 show waits that mix two clocks within a minute.
    return random.choice((0, 0, -200, 200, 5_000))


def _flush_us(random: Random) -> int:
    # A disk with a battery, one without, a magnetic one. While it flushes, the next chunks gather, and go together.
    return random.choice((0, 0, 2_000, 20_000, 100_000))


def _group_settings(random: Random) -> _Settings:
    """Times of groups close to those of faults and of requests."""
    session_ms, interval_ms = random.choice((2_000, 3_000, 6_000)), random.choice((300, 1_000))
    settings = {
        "min_session_timeout_ms": 1_000,
        # The greatest is Kafka's default.
        "initial_rebalance_delay_ms": random.choice((0, 200, 3_000)),
        "consumer_min_session_timeout_ms": session_ms,
        "consumer_session_timeout_ms": session_ms,
        "consumer_min_heartbeat_interval_ms": interval_ms,
        "consumer_heartbeat_interval_ms": interval_ms,
        "consumer_assignment_interval_ms": random.choice((0, 1_000)),
    }
    return [(f"group.{name}", str(value)) for name, value in settings.items()]


def _topic_settings(random: Random) -> _Settings:
    # The second is longer than a simulation: nothing is removed but by DeleteRecords.
    return [("log.retention_check_interval_ms", random.choice(("1000", "300000")))]


def _cleaner_settings(random: Random) -> _Settings:
    return [("log.cleaner_backoff_ms", random.choice(("100", "2000", "15000")))]


def _bounded_topics(random: Random) -> list[PlannedTopic]:
    """Topics that lose records: the oldest, or those whose keys have newer ones."""
    topics: list[PlannedTopic] = []
    # Files are closed soon, as nothing in an open one is removed.
    closing = [("segment.bytes", random.choice(("20000", "1048576"))), ("segment.ms", random.choice(("1000", "60000")))]
    if random.random() < 0.3:
        topics.append(PlannedTopic("events", 1, (*closing, ("retention.bytes", random.choice(("10000", "100000"))))))
    if random.random() < 0.4:
        topics.append(PlannedTopic("accounts", 1, (*closing, *_cleaning(random))))
    return topics


def _cleaning(random: Random) -> _Settings:
    kept_ms, ratio = random.choice(("0", "1000", KEPT_FOR_GOOD_MS)), random.choice(("0", "0.5"))
    return [("cleanup.policy", COMPACT), ("delete.retention.ms", kept_ms), ("min.cleanable.dirty.ratio", ratio)]


def _ledgers(random: Random) -> list[PlannedTopic]:
    """The topic of transactional producers."""
    return [PlannedTopic("ledger", random.choice((1, 2, 3)))] if random.random() < 0.5 else []


def _balances(random: Random) -> list[PlannedTopic]:
    """The compacted topic of transactional producers."""
    if random.random() >= 0.3:
        return []
    closing = [("segment.bytes", random.choice(("20000", "1048576"))), ("segment.ms", "1000")]
    return [PlannedTopic("balances", 1, (*closing, *_cleaning(random)))]


def _targets(random: Random) -> list[PlannedTopic]:
    """The topic that processors write to."""
    return [PlannedTopic("copies", random.choice((1, 2)))] if random.random() < 0.4 else []


def _faults(random: Random, lasts_us: int, kinds: tuple[str, ...]) -> list[PlannedFault]:
    # Of fifteen kinds one or two, or six, on average: some damage takes the same fault again and again.
    share = random.choice((0.1, 0.4))
    chosen = [kind for kind in kinds if random.random() < share]
    if not chosen:
        return []
    faults = []
    for _ in range(random.choice((2, 5, 12))):
        # Short ones as often as long ones: timeouts of all sizes have to meet them.
        length_us = int(10 ** random.uniform(3, 7.2))  # a millisecond to 16 s
        at_us = random.randrange(lasts_us)
        faults.append(PlannedFault(at_us, random.choice(chosen), length_us, random.getrandbits(32)))
    if random.random() < _RELAPSES_SHARE:
        faults += [_relapse(random, fault) for fault in faults]
    return sorted(faults, key=lambda fault: fault.at_us)


def _relapse(random: Random, fault: PlannedFault) -> PlannedFault:
    """The same fault again soon after its end: in a start, or before all that was lost is written again."""
    after_us = int(10 ** random.uniform(3.5, 6.5))  # 3 ms to 3 s
    return PlannedFault(fault.at_us + fault.lasts_us + after_us, fault.kind, after_us, random.getrandbits(32))
