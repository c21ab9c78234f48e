"""The bounds and times of streams groups (KIP-1071). Kafka's names and defaults, except where a comment says why."""

from dataclasses import dataclass, field

from hutong.groups.assigned.settings import GroupTimes


@dataclass(frozen=True, slots=True)
class StreamsRules(GroupTimes):
    """Times of one group, and how many standby tasks each stateful task has."""

    standby_replicas: int = 0
    # Kafka waits 3,000 ms: a long wait for somebody who tries one instance. Processes that one command starts join
    # within this time.
    initial_rebalance_delay_ms: int = 500


@dataclass(frozen=True, slots=True)
class StreamsGroupSettings:
    """Every wait and every growth of a group is limited by one of these."""

    rules: StreamsRules = field(default_factory=StreamsRules)
    session_timeout_ms_bounds: tuple[int, int] = (45_000, 60_000)
    heartbeat_interval_ms_bounds: tuple[int, int] = (5_000, 15_000)
    assignment_interval_ms_bounds: tuple[int, int] = (0, 15_000)
    standby_replicas_max: int = 2
    # Kafka has no bound on members by default; memory does.
    members_max: int = 5_000
    name_bytes_max: int = 4_096  # group, member, process and rack ids, and hosts
    tags_max: int = 100  # of one member
    subtopologies_max: int = 1_000
    topology_topics_max: int = 10_000  # names, and settings of internal topics, in a topology
    topology_bytes_max: int = 512 * 1024  # of its names and settings: it is one record
    tasks_max: int = 10_000  # of one group: one member may have to name all of them; an assignment takes 8 us for each
    waits_max: int = 50_000
    groups_bytes_max: int = 256 * 1024 * 1024  # of what members of all groups say and are assigned
