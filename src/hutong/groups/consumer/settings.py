"""The bounds and times of consumer groups (KIP-848). Kafka's names and defaults, but where a comment says why."""

from dataclasses import dataclass, field
from enum import StrEnum

from hutong.groups.assigned.settings import GroupTimes


class MigrationPolicy(StrEnum):
    """Permission of a group to change its protocol while it has members (`group.consumer.migration.policy`)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Return True if a classic group may become a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """Return True if a consumer group of classic members may become a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """Every wait and every growth of a group is limited by one of these."""

    times: GroupTimes = field(default_factory=GroupTimes)
    session_timeout_ms_min: int = 45_000
    session_timeout_ms_max: int = 60_000
    heartbeat_interval_ms_min: int = 5_000
    heartbeat_interval_ms_max: int = 15_000
    assignment_interval_ms_min: int = 0
    assignment_interval_ms_max: int = 15_000
    assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    # Kafka has no bound on members by default; memory does.
    members_max: int = 5_000
    name_bytes_max: int = 4_096  # group, member, instance and rack ids, and patterns
    topics_per_member_max: int = 10_000
    waits_max: int = 50_000
    groups_bytes_max: int = 256 * 1024 * 1024  # of what members of all groups say and are assigned
